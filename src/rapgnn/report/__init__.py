"""Parts of self-contained HTML pages: tables, prose, plots, the frame around them, and how a page is written.

In: what a page shows, as ``parts``. Out: one HTML file that opens without a network.

What the pages are about lives elsewhere: a user's model in ``rapgnn.estimators.report``, the paper in
``rapgnn.experiments.report``.
"""
