"""The course's thirteen questions and seven tasks: the explanation is fixed, the figures are the run's."""
