"""``rapgnn bench``: speed, memory and accuracy against end-to-end training and its alternatives, in the same run.

In: words a user types. Out: a table and a plot for people, and a JSON file of records that a later run goes on from.
"""

from rapgnn.cli.bench import accuracy, auto, disk, size, speed  # noqa: F401 - each adds its commands to the app
