#!/usr/bin/env bash
# Build both packages, check them, and use the wheels in a folder that is not the repository's.
set -euo pipefail
cd "$(dirname "$0")/.."
python=${PYTHON:-python3}
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
"$python" -m venv "$place/build"
"$place/build/bin/pip" install --quiet build twine
rm -rf dist
"$place/build/bin/python" -m build --outdir dist .  # the wheel is made of the sdist
"$place/build/bin/twine" check --strict dist/*
"$place/build/bin/python" -m build --wheel --outdir dist lab
"$python" -m venv "$place/use"
"$place/use/bin/pip" install --quiet --constraint constraints.txt torch
"$place/use/bin/pip" install --quiet --constraint constraints.txt dist/rapgnn-*.whl dist/rapgnn_lab-*.whl
cp examples/digits.py "$place"
cd "$place"
PATH="$place/use/bin:$PATH"
python digits.py
rapgnn fit digits --label digit --out model --report model.html --quiet
rapgnn predict model digits --out predictions.csv
rapgnn paper --help > /dev/null
python -c "import rapgnn; print(rapgnn.__version__, rapgnn.load_model('model'))"
