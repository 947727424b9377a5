"""A model over HTTP. Run it with: MODEL=model DATA=people uvicorn serve:app"""

import os

import pandas as pd
from fastapi import FastAPI, HTTPException

from rapgnn import InputError, load_model

model = load_model(os.environ.get("MODEL", "model"))
served = model.serve(os.environ.get("DATA", "people"))  # loaded and walked once
app = FastAPI()


@app.get("/rows/{row}")
def answer(row: str) -> dict[str, float]:
    try:
        return dict(zip(map(str, model.classes_), served.predict_proba([row])[0].tolist(), strict=True))
    except InputError as error:
        raise HTTPException(404, str(error)) from error


@app.post("/rows")
def add(nodes: list[dict], edges: list[tuple[str, str]]) -> int:
    try:
        return len(served.update(pd.DataFrame(nodes), list(zip(*edges, strict=True)) or None))
    except InputError as error:
        raise HTTPException(422, str(error)) from error
