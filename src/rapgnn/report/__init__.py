"""Parts of self-contained HTML pages: tables, prose, plots, the frame around them, and how a page is written.

In: what a page shows, as ``parts``. Out: one HTML file that opens without a network.

A user's model is in ``model`` and the files of its sections; the paper's page is the laboratory's.
"""
