"""The laboratory's commands under ``rapgnn``: ``reproduce``, ``paper``, ``tune`` and ``bench``.

In: words a user types. Out: as for the library's own commands. The entry-point group ``rapgnn.commands`` names this
module; importing it adds the commands.
"""

from rapgnn_lab.cli import bench, reproduce, tune  # noqa: F401 - each adds its commands to the app
