"""The notebook that makes the first figure runs, cell by cell, and is kept without what its cells gave."""

from __future__ import annotations

import pathlib

import nbclient
import nbformat

NOTEBOOK = pathlib.Path(__file__).resolve().parents[1] / "examples" / "first_figure.ipynb"


def test_the_first_figure(tmp_path: pathlib.Path) -> None:
    notebook = nbformat.read(NOTEBOOK, as_version=4)  # type: ignore[no-untyped-call]
    nbformat.validate(notebook)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert all(cell.outputs == [] and cell.execution_count is None for cell in code)
    nbclient.NotebookClient(notebook, timeout=600, resources={"metadata": {"path": str(tmp_path)}}).execute()
    shown = {kind for cell in code for output in cell.outputs for kind in output.get("data", {})}
    assert {"text/html", "image/png"} <= shown
    assert (tmp_path / "first_figure.png").read_bytes().startswith(b"\x89PNG")
