"""Findings: each a function of the study that returns a sentence, or None where its condition does not hold."""
