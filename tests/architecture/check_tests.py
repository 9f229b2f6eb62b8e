#!/usr/bin/env python3
"""Checks that a source has tests under its name: check_tests.py ROOT. Prints a line per violation and exits 1 if there is one.

The tests of src/MODULE/.../X.cpp are in tests/MODULE/test_X.cpp; in tests/mpi or tests/emulated/MODULE where they need
processes or a GPU. Sources that are a part of something that is tested as a whole are in the table below, with the test
of the whole. A new source is in neither until somebody says where it is tested.
"""

import sys
from fnmatch import fnmatchcase
from pathlib import Path

# Parts of a whole: {where it is tested, below tests/: the parts, below src/}. A star stands for any characters.
PARTS = {
    # the program and its commands, over real processes
    "cli": ["main.cpp", "commands/program.cpp", "commands/version.cpp", "sweep/sweep.cpp"],
    "cli/test_train.py": ["commands/train.cpp", "training/train_loop.cpp"],
    "cli/test_bad_input.py": ["base/error.cpp", "commands/doctor.cpp"],
    "cli/test_flight.py": ["commands/postmortem.cpp", "training/flight.cpp"],
    "flight/test_recorder.cpp": ["flight/folder.cpp"],
    "flight/test_survey.cpp": ["flight/report.cpp", "flight/waits.cpp"],
    "cli/test_eval.py": ["commands/eval.cpp"],
    "cli/test_checkpoint.py": ["commands/checkpoint_commands.cpp"],
    "cli/test_generate.py": ["commands/generate.cpp", "commands/generate_text.cpp", "commands/loaded_model.cpp",
                             "resolve/model_weights.cpp"],
    "cli/test_convert.py": ["convert/convert.cpp", "convert/hugging_face_companions.cpp"],
    "cli/test_lora.py": ["convert/base_weights.cpp", "convert/merge.cpp", "formats/peft.cpp", "resolve/adapters.cpp"],
    "cli/test_bench_output.py": ["bench/checkpoint.cpp", "bench/commands.cpp", "bench/step_table.cpp"],
    "cli/test_gpu_tools.py": ["bench/power_meter.cpp"],
    "commands/test_plan.cpp": ["commands/plan_json.cpp", "commands/plan_times.cpp", "fit/longest.cpp",
                               "simulate/run_cost.cpp"],
    "commands/test_plan_fit.cpp": ["fit/fastest.cpp", "fit/fastest_text.cpp"],
    "commands/test_plan_largest.cpp": ["fit/largest_model.cpp"],
    "commands/test_call.cpp": ["commands/help.cpp", "commands/table.cpp", "commands/words.cpp"],
    "resolve/test_origin.cpp": ["resolve/companions.cpp", "resolve/run_checkpoints.cpp"],
    "resolve/test_steps.cpp": ["resolve/data_steps.cpp", "resolve/memory_steps.cpp", "resolve/resolved_run.cpp"],
    "cli/test_data.py": ["commands/data_inspect.cpp", "commands/data_prepare.cpp"],
    # what benches measure with
    "bench/test_calibrate.cpp": ["bench/calibration.cpp", "bench/kernel_ladder.cpp", "bench/priced_calls.cpp"],
    "bench/test_comm.cpp": ["bench/collective_times.cpp", "bench/comm_table.cpp", "bench/transports.cpp"],
    "bench/test_kernels.cpp": ["bench/kernel_*.cpp", "bench/one_block.cpp", "kernels/kernel_call.cpp"],
    # devices, streams and events are one thing to their users
    "backend/test_streams.cpp": ["backend/cpu/*.cpp"],
    "files/test_mapped_file.cpp": ["base/mapping.cpp"],
    # the same cases test every communicator, on threads and (tests/mpi) on processes
    "comm/test_communicators.cpp": ["comm/collective_call.cpp", "comm/make_communicator.cpp",
                                    "comm/point_to_point/*.cpp", "comm/shared/*.cpp", "comm/shared_region.cpp"],
    # what needs MPI
    "mpi": ["comm/mpi/*.cpp"],
    # what needs a GPU, real or emulated
    "emulated": ["cuda/*.cpp", "engine/gpu/*.cpp"],
    # a run's memory, binding and playing show in the bits of what it trains
    "optimizer/test_rules.cpp": ["optimizer/state_slice.cpp"],
    "training/test_evaluator.cpp": ["data/evaluation.cpp", "data/filled.cpp"],
    "training/test_offload.cpp": ["engine/player.cpp"],
    "training/test_same_bits.cpp": ["engine/bound_*.cpp", "engine/operation_log.cpp",
                                    "engine/cpu/*.cpp", "engine/memory.cpp", "engine/operation_runner.cpp",
                                    "engine/poison.cpp", "engine/resources.cpp", "engine/state.cpp"],
    "training/test_checkpoint_writer.cpp": ["training/checkpoint_stream.cpp"],
    "training/test_replay.cpp": ["training/integrity/integrity.cpp"],
    "training/test_session.cpp": ["training/step_samples.cpp"],
    "record/test_recorder.cpp": ["record/metrics_layout.cpp", "record/status_writer.cpp"],
    "record/test_trace_writer.cpp": ["record/trace_events.cpp"],
    # files and formats that are read as they are written
    "checkpoint/test_manifest.cpp": ["checkpoint/file_records.cpp", "checkpoint/manifest_fields.cpp"],
    "checkpoint/test_block_pipeline.cpp": ["checkpoint/shard_file.cpp"],
    "commands/test_reference.cpp": ["config/option_table.cpp"],
    "data/test_token_file.cpp": ["data/raw_tokens.cpp", "data/write_token_file.cpp"],
    "files/test_hdf5.cpp": ["files/hdf5_data.cpp", "files/hdf5_dataset.cpp", "files/hdf5_texts.cpp"],
    # text to tokens: pieces and threads as one, files that go on where they were cut off
    "text/test_pipeline.cpp": ["text/encode.cpp", "text/pieces.cpp"],
    "text/test_chats.cpp": ["text/chat_encoder.cpp"],
    "text/test_row_stream.cpp": ["text/helper.cpp"],
    "text/test_json_documents.cpp": ["text/python_json.cpp"],
    "text/test_prepare.cpp": ["text/prepare_job.cpp", "text/prepare_report.cpp", "text/prepared.cpp", "text/token_writer.cpp"],
    "formats/test_hugging_face_config.cpp": ["formats/config_*.cpp", "formats/hugging_face_write_config.cpp"],
    "formats/test_hugging_face_weights.cpp": ["formats/refuse_folder.cpp"],
    "model/test_constants.cpp": ["kernels/rotary_table.cpp"],
    "formats/test_safetensors.cpp": ["formats/safetensors_header.cpp"],
    "tokenizer/test_open_tokenizer.cpp": ["tokenizer/bpe.cpp", "tokenizer/document_begin.cpp", "tokenizer/folder_tokens.cpp",
                                          "tokenizer/tokenizer_class.cpp"],
    "tokenizer/test_tokenizer_json.cpp": ["tokenizer/json_at.cpp", "tokenizer/spellings.cpp", "tokenizer/text_normalizer.cpp",
                                          "tokenizer/text_rules.cpp", "tokenizer/word_splitter.cpp"],
    "tokenizer/test_word_merger.cpp": ["tokenizer/merge_table.cpp"],
    # kernels are tested by their results, on every instruction set and device
    "kernels": ["kernels/cpu/attention_*.cpp", "kernels/cpu/cpu_kernels.cpp", "kernels/cpu/layouts.cpp",
                "kernels/cpu/tile_matmul.cpp", "kernels/cpu/vector/*.cpp",
                "kernels/gpu/layouts.cpp"],
    "schedule/test_planned_run.cpp": ["kernels/needs.cpp"],
    "model/test_decoder.cpp": ["model/layer_call.cpp", "model/layers/*.cpp"],
    "model/test_parts.cpp": ["model/part_plan.cpp"],
    # the passes, the writer and the verifier: every policy's schedule, and every mutant of one
    "schedule/test_build.cpp": ["schedule/collective_sizes.cpp", "schedule/formula.cpp", "schedule/passes/*.cpp",
                                "schedule/schedule.cpp", "schedule/writer.cpp"],
    "schedule/test_mutation.cpp": ["schedule/order.cpp", "schedule/verify/*.cpp"],
    "schedule/test_print.cpp": ["schedule/print/print_memory.cpp", "schedule/print/print_strategies.cpp"],
    "schedule/test_print_json.cpp": ["schedule/print/print_json_memory.cpp"],
}


def test_folders(module):
    """Folders below tests/ in which a module's sources have tests."""
    return (module, "mpi", f"emulated/{module}")


def without_test(root):
    """Sources below ROOT/src, as text, that have no tests under their name; and the number of all sources."""
    sources = sorted(path.relative_to(root / "src") for path in (root / "src").rglob("*.cpp"))
    missing = [source.as_posix() for source in sources
               if not any((root / "tests" / folder / f"test_{source.stem}.cpp").exists()
                          for folder in test_folders(source.parts[0]))]
    return missing, len(sources)


def check_tree(root, parts):
    """All violations, and how many sources there are."""
    missing, sources = without_test(root)
    patterns = [pattern for group in parts.values() for pattern in group]
    problems = [f"src/{source} has no tests/{source.split('/')[0]}/test_{Path(source).stem}.cpp: write one, or name in "
                "check_tests.py the test of what it is a part of"
                for source in missing if not any(fnmatchcase(source, pattern) for pattern in patterns)]
    problems += [f"check_tests.py: {pattern} is no source without a test of its own: leave it out"
                 for pattern in patterns if not any(fnmatchcase(source, pattern) for source in missing)]
    problems += [f"check_tests.py: there is no tests/{where}" for where in parts if not (root / "tests" / where).exists()]
    return problems, sources


def main():
    problems, sources = check_tree(Path(sys.argv[1]), PARTS)
    for problem in problems:
        print(problem)
    print(f"{sources} sources, {len(problems)} that nobody says how to test")
    return 1 if problems or sources == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
