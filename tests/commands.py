"""Command lines that take a moment, and what a refusal looks like."""

QUICK = ["--seeds", "1", "--epochs", "3", "--set", "pretrain_epochs=3", "--hidden", "8", "--layers", "2"]
SBM = "sbm:nodes=200,classes=3,features=8,train=5,val=40,test=60"


def refused(result: tuple[int, str, str], *words: str) -> None:
    code, _, err = result
    lines = [line for line in err.splitlines() if line.strip() and "0:00:0" not in line]  # progress bars aside
    assert code == 2, err
    assert len(lines) == 1, err
    assert lines[0].startswith("rapgnn: ")
    assert lines[0].endswith(".")
    for word in words:
        assert word in lines[0]
