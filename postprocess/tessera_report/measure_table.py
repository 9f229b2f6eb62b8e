"""Made by build/ci/bin/test_commands from src/record/measures.cpp."""

# Attributes that tessera-report shows under their names.
REPORTED = {
    "load_average_start": "/provenance/load_average_start",
    "load_average_end": "/provenance/load_average_end",
    "gpu_foreign_processes_start": "/provenance/gpu_foreign_processes_start",
    "gpu_foreign_processes_end": "/provenance/gpu_foreign_processes_end",
}
COLLECTIVES = ("all_gather", "reduce_scatter", "all_reduce", "broadcast", "exchange")
