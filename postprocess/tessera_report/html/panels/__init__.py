"""The pictures of the report, each a function of the study that returns a panel, or None where it has nothing to show."""
