"""Methods as points of one grid."""

from rapgnn import METHODS, Config

OWN_STRUCTURE = {"fixed-diagonal", "identity"}


def test_a_diagonal_has_no_distribution_by_width() -> None:
    """Settings of full matrices carry over to the other methods, all but what only a full matrix has."""
    full = Config(structure="full", distribution="glorot")
    for name, method in METHODS.items():
        assert method.configure(full).distribution == ("uniform" if name in OWN_STRUCTURE else "glorot")
