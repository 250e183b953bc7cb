"""Conformance of an engine, case by case: what ``raggeddnn verify`` runs.

``suite`` names the cases, ``attention``, ``layouts`` and ``operations`` make each into a
:class:`Subject`, ``judge`` puts one to an engine by the verification harness, ``child`` and
``session`` do that in a process of its own, ``command`` prints.
"""

from .judge import Finding, judge
from .session import Outcome, Session
from .subject import Call, Subject, VerifyCase
from .suite import all_cases, chosen_cases

__all__ = [
    "Call",
    "Finding",
    "Outcome",
    "Session",
    "Subject",
    "VerifyCase",
    "all_cases",
    "chosen_cases",
    "judge",
]
