"""Made by build/ci/bin/test_commands from src/record/measures.cpp."""

# Measures that tessera-report sums up under their names: where, and how.
REPORTED = {
    "tokens_per_second": ("/steps/tokens_per_second", "median"),
    "load_average_start": ("/provenance/load_average_start", "attribute"),
    "load_average_end": ("/provenance/load_average_end", "attribute"),
    "gpu_foreign_processes_start": ("/provenance/gpu_foreign_processes_start", "attribute"),
    "gpu_foreign_processes_end": ("/provenance/gpu_foreign_processes_end", "attribute"),
}
COLLECTIVES = ("all_gather", "reduce_scatter", "all_reduce", "broadcast", "exchange")
