"""Explanations of failing rows: a diagnosis and a repro script."""

from __future__ import annotations

import warnings
from typing import Any

from ..backends.backend import Backend
from ..case import Case
from ..judge.diagnose import diagnose
from ..judge.verdict import first_line
from ..report.report import REFUSED
from ..report.repro import TooLargeError, script


class Explainer:
    """Adds a diagnosis and a repro script to failing rows, up to a limit.

    The limit is per overload and outcome, for diagnoses also per dtype. With ``cases``, a row that gets a script also
    keeps its case, which the shrinker needs.
    """

    def __init__(
        self, oracle: Backend, backend: Backend, most: int = 3, diagnoses: int = 50, cases: bool = False
    ) -> None:
        self.oracle, self.backend, self.most, self.diagnoses, self.cases = oracle, backend, most, diagnoses, cases
        self.scripts: dict[tuple[str, str], int] = {}
        self.said: dict[tuple[str, str, str], int] = {}

    def __call__(self, case: Case, row: dict[str, Any]) -> dict[str, Any]:
        """Return the keys to add to a row."""
        if row["outcome"] in ("unspecified", REFUSED):
            return {}
        more: dict[str, Any] = {}
        key = row["op"], row["outcome"]
        if self.said.get((*key, row["dtype"]), 0) < self.diagnoses:
            self.said[*key, row["dtype"]] = self.said.get((*key, row["dtype"]), 0) + 1
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                want, mine = self.oracle.execute(case), self.backend.execute(case)
                found = diagnose(case, row["outcome"], want, mine, self.oracle)
            if found:
                more["diagnosis"] = first_line(found, 300)
        if self.scripts.get(key, 0) < self.most:
            self.scripts[key] = self.scripts.get(key, 0) + 1
            more |= {"case": case} if self.cases else {}
            try:
                more["repro"] = script(case, row | more, self.backend)
            except TooLargeError as e:
                more["repro_missing"] = str(e)
        return more
