"""The page about a user's own model.

In: a fitted estimator and the data. Out: one HTML page: the data, the choice, how good the model is and why.

Of the estimator only ``predict_proba`` or ``predict``, ``transform``, ``config_``, ``trials_`` and
``validation_score_`` are used, and what is missing is said on the page.
"""
