"""``rapgnn data``."""


def test_data_list(rapgnn):
    code, text, _ = rapgnn("data", "list")
    assert code == 0
    assert all(name in text for name in ("cora", "citeseer", "pubmed", "sbm"))
