"""The README says what results/ measured, and its Python runs."""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def test_tables_are_those_of_the_results():
    done = subprocess.run(
        [sys.executable, "scripts/readme_tables.py", "--check"], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr or "README.md differs: run scripts/readme_tables.py"


def test_python_blocks_run(capsys):
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    assert blocks
    for block in blocks:
        exec(compile(block, "README.md", "exec"), {})
    assert "polynomial because" in capsys.readouterr().out


def test_every_linked_file_exists():
    links = re.findall(r"\]\(([^)#]+)\)", (ROOT / "README.md").read_text())
    local = [link for link in links if not link.startswith("http")]
    assert local
    assert [link for link in local if not (ROOT / link).exists()] == []
