"""``rapgnn report``: one HTML page of the paper's reproduction.

In: the folder that ``rapgnn reproduce --out`` writes. Out: the page.
"""
