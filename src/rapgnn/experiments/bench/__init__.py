"""Measurements of speed and memory; every one times end-to-end training in the same run."""
