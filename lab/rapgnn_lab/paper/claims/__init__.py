"""What the paper claims, judged by tests on the records of the items, and what it prints against itself.

In: the records of finished items. Out: what becomes of each claim, and notes that stand below the tables.
"""
