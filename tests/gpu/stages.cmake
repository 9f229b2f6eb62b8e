# The stages of tests/gpu/run.sh as tests of CTest: one for each attempt, labelled with its stage and called "STAGE: NAME", or
# "STAGE/CASE" for a case of the kernel suite. run.sh sets the environment that is read here; steps.sh has the steps.
set(work $ENV{work})
set(tessera $ENV{binaries}/tessera)
set(mpiexec $ENV{binaries}/mpiexec -n)
set(comm $ENV{binaries}/test_gpu_comm)
set(suite $ENV{binaries}/bin/test_gpu_kernels)
set(steps ${CMAKE_CURRENT_LIST_DIR}/steps.sh)

# How large and how often. Models: preset, tokens of a sequence, sequences of a micro-batch.
set(small gpt2-124m 1024 64)
set(qwen qwen2-1.5b 1024 16)
set(large gpt2-1558m 1024 16)
set(adapted llama-8b 4096 1)
set(toy --train.steps=12)
set(repetitions --bench.steps=10 --bench.warmup=3)
set(comm_bytes 64MiB)
set(nccl_bytes 16MiB)
# For PyTorch: its device, steps, different tokens; settings, the most promising first.
set(peer cuda 20 32768)
set(settings_small fsdp2,blocks,whole-cudnn)
set(settings_large blocks,blocks-cudnn,whole)
set(is_rehearsal $ENV{TESSERA_GPU_REHEARSAL})
if(is_rehearsal)  # rehearse.sh: the same way through, in little
  foreach(model small qwen large adapted)
    set(${model} nano 16 1)
  endforeach()
  set(toy --train.steps=4 --model.layers=1 --model.heads=2 --model.width=16 --model.context=8)
  set(repetitions --bench.steps=1 --bench.warmup=0)
  set(comm_bytes 4KiB)
  set(nccl_bytes 4KiB)
  set(peer cpu 1 256)
  set(settings_small eager)
  set(settings_large fsdp2-eager)
endif()

# What all tests have in common. From the names run.sh knows for which there was no time.
function(label test stage seconds)
  set_tests_properties("${test}" PROPERTIES LABELS ${stage} TIMEOUT ${seconds} SKIP_RETURN_CODE 77 ${ARGN})
  file(APPEND ${work}/ctest/names "${test}\n")
endfunction()

# attempt(STAGE NAME SECONDS STEP...)
function(attempt stage name seconds)
  add_test("${stage}: ${name}" ${steps} ${ARGN})
  label("${stage}: ${name}" ${stage} ${seconds} RUN_SERIAL TRUE)
endfunction()

# kernel_cases(STAGE SECONDS SANITIZER...): a process for each case, so that a fault of one does not spoil the next. run.sh
# plays several at a time, since most of a case's time is the host's.
function(kernel_cases stage seconds)
  file(STRINGS ${work}/cases cases)
  foreach(case IN LISTS cases)
    string(REGEX REPLACE "([],[\\\"~*])" "\\\\\\1" pattern "${case}")
    add_test("${stage}/${case}" ${steps} kernel_case ${ARGN} ${suite} "${pattern}")
    label("${stage}/${case}" ${stage} ${seconds})
  endforeach()
endfunction()

# Attention once more by cuDNN, where one is found that can be used.
function(cudnn stage seconds cases)
  attempt(${stage} "attention by cuDNN" ${seconds} run env TESSERA_TEST_ATTENTION=cudnn ${suite} ${cases})
  set_tests_properties("${stage}: attention by cuDNN" PROPERTIES
    SKIP_REGULAR_EXPRESSION "cannot be loaded|is too old|cannot be used here")
endfunction()

# The layers one upon the other: the first that fails is what to look at.
attempt(smoke "a kernel" 30 run ${suite} "cast rounds*")
attempt(smoke "a matmul" 30 run ${suite} "linear in pieces*")
cudnn(smoke 30 "attention forward and backward: gradients*")
foreach(graph false true)  # as graphs: two steps that are timed, one that is captured, and replays
  set(train ${tessera} train ${toy} --train.steps=6 --data.val_fraction=0 --run.device=cuda --run.graph=${graph})
  attempt(smoke "steps, graph = ${graph}" 30 run ${train} --run.dir=${work}/smoke.${graph})
  if($ENV{gpus} GREATER 1)
    attempt(smoke "2 ranks over NCCL, graph = ${graph}" 40 run ${mpiexec} 2 ${steps} nccl_rank ${train} --comm.backend=$ENV{nccl}
      --shard.strategy=zero3 --run.dir=${work}/smoke.nccl.${graph})
  endif()
endforeach()

# Every kernel against the reference in double precision.
kernel_cases(kernels 90)
cudnn(kernels 150 "attention forward and backward*")
attempt(kernels "attention by cuDNN, deterministic" 150 run env TESSERA_TEST_ATTENTION=cudnn-deterministic ${suite}
  "attention forward and backward*")
set_tests_properties("kernels: attention by cuDNN, deterministic" PROPERTIES
  SKIP_REGULAR_EXPRESSION "cannot be loaded|is too old|cannot be used here|ends with status 3000")

# sanitize(TOOL): the same cases under a tool of compute-sanitizer, where it can be used.
function(sanitize tool)
  if(NOT "$ENV{stage}" STREQUAL tool)
    return()
  endif()
  find_program(sanitizer compute-sanitizer)
  if(NOT sanitizer)
    attempt(${tool} compute-sanitizer 10 skip "not on this machine")
    return()
  endif()
  set(words ${sanitizer} --target-processes all --tool ${tool} --error-exitcode 1)  # a script starts a bundle's programs
  # Kernels of NVIDIA's own libraries are slow to check and not ours.
  execute_process(COMMAND ${sanitizer} --help TIMEOUT 20 OUTPUT_VARIABLE said ERROR_VARIABLE said)
  if(said MATCHES "--kernel-name ")
    list(APPEND words --kernel-name kns=tessera)
  endif()
  # Nor are calls that the driver refuses, and the libraries' own look-ups are such: memory errors are looked for.
  if(tool STREQUAL memcheck)
    list(APPEND words --report-api-errors no)
  endif()
  execute_process(COMMAND ${words} ${suite} "cast rounds*" TIMEOUT 60 OUTPUT_VARIABLE said ERROR_VARIABLE said)
  if(said MATCHES "(Device not supported|No attachable process|LibraryNotLoaded)[^\n]*")
    attempt(${tool} compute-sanitizer 10 skip ${CMAKE_MATCH_0})
  else()
    kernel_cases(${tool} 180 ${words})
  endif()
endfunction()
sanitize(memcheck)
sanitize(racecheck)

# The golden models on one rank: the GPU's losses and norms against the CPU's. The words say how the model's losses in
# tests/reference were made (README.md there).
function(golden model sequence batch steps_of_model rate)
  if(model STREQUAL shallow OR NOT is_rehearsal)
    attempt(golden ${model} 120 golden ${model} --train.seq_len=${sequence} --train.micro_batch=${batch}
      --train.steps=${steps_of_model} --optim.lr=${rate} ${ARGN})
  endif()
endfunction()
golden(clipped 17 8 25 0.003 --optim.clip=0.25)
golden(deep 29 6 25 0.005 --optim.beta2=0.999 --optim.weight_decay=0)
golden(shallow 9 8 25 0.005 --optim.beta2=0.99 --optim.weight_decay=0.3 --optim.clip=0)
golden(llama3 29 6 20 0.003 --optim.beta2=0.99)
golden(qwen3 19 8 20 0.003 --optim.clip=0.25)
golden(qwen2-tied 19 8 20 0.003 --optim.clip=0.25)
golden(qwen2-untied 11 6 20 0.003 --optim.beta2=0.999 --optim.weight_decay=0 --optim.clip=0)
# Documents that cuDNN keeps apart, which it does in 16 bits alone.
attempt(golden "packed documents" 120 packed --train.steps=20 --train.seq_len=64 --train.micro_batch=4 --optim.lr=0.003
  --model.layers=2 --model.heads=2 --model.width=32 --model.context=64)

# In fp8, where the GPU multiplies that.
function(from_8_9_on test)
  set_tests_properties("${test}" PROPERTIES SKIP_REGULAR_EXPRESSION "does not work with a GPU of compute capability")
endfunction()
attempt(golden "qwen3, fp8" 120 golden_fp8 qwen3 --train.seq_len=19 --train.micro_batch=8 --train.steps=20 --optim.lr=0.003
  --optim.clip=0.25)
from_8_9_on("golden: qwen3, fp8")

# Masks of documents and of the loss, generation, evaluation: the GPU's against the CPU's.
attempt(text masks 120 masks ${toy})
attempt(text generate 60 same_output ".+" generate ${work}/text.cpu "--generate.prompt=1 a" --generate.max_tokens=4
  --generate.temperature=0)
attempt(text eval 60 same_output "accuracy [0-9.]+: [0-9]+ of [0-9]+" eval ${work}/text.cpu
  --eval.choices=${work}/questions.jsonl)
set_tests_properties("text: masks" PROPERTIES FIXTURES_SETUP text)
set_tests_properties("text: generate" "text: eval" PROPERTIES FIXTURES_REQUIRED text)

# Collectives of several ranks on one GPU, staged.
set(sharing --run.device=cuda --run.deterministic=true --run.share_gpu=true)
set(bench_comm ${tessera} bench comm ${sharing})
attempt(comm "bench comm over 2 ranks" 120 run ${mpiexec} 2 ${bench_comm} --comm.backend=staged --bench.steps=5
  --bench.max_bytes=${comm_bytes})
foreach(ranks 2 3 4)
  attempt(comm "staged over ${ranks} ranks" 120 run env TESSERA_TEST_BACKEND=staged ${mpiexec} ${ranks} ${comm})
endforeach()

# Every strategy has the same bits: several ranks on one GPU, staged.
set(train ${tessera} train ${toy} ${sharing} --metrics.every=1 --data.val_fraction=0 --train.micro_batch=2
  --train.accumulation=2)
function(staged ranks precision)
  attempt(strategies "staged over ${ranks} ranks, ${precision}" 150 same_bits "ddp zero1 zero2 zero3"
    ${mpiexec} ${ranks} ${train} --comm.backend=staged --precision.compute=${precision})
endfunction()
staged(2 fp32)
staged(4 fp32)
staged(2 bf16)
attempt(strategies "staged over 2 ranks, fp8" 150 same_bits "ddp zero1 zero2 zero3" ${mpiexec} 2 ${train} --comm.backend=staged
  --precision.compute=bf16 --precision.linear=fp8 --precision.fp8_smallest=0)
from_8_9_on("strategies: staged over 2 ranks, fp8")

# The same over NCCL: a rank for each GPU where there are several, otherwise two on one, where NCCL can be brought to it.
# Eagerly first: which half is broken, where the graphs fail.
set(ranks $ENV{gpus})
set(way "a GPU for each of ${ranks} ranks")
if(ranks LESS 2)
  set(ranks 2)
  set(way "2 ranks of one GPU")
endif()
set(before ${mpiexec} ${ranks} ${steps} nccl_rank)
list(APPEND train --comm.backend=$ENV{nccl} --precision.compute=fp32)
attempt(nccl ${way} 220 nccl_way ${before} ${comm})
attempt(nccl eagerly 100 same_bits "ddp zero3" ${before} ${train} --run.graph=false)
attempt(nccl strategies 150 same_bits "ddp zero1 zero2 zero3" ${before} ${train})
attempt(nccl "bench comm" 100 run ${before} ${bench_comm} --comm.backend=$ENV{nccl} --bench.steps=3
  --bench.max_bytes=${nccl_bytes})
set_tests_properties("nccl: ${way}" PROPERTIES FIXTURES_SETUP nccl)
set_tests_properties("nccl: eagerly" "nccl: strategies" "nccl: bench comm" PROPERTIES FIXTURES_REQUIRED nccl)

# Every kernel of three models' steps, as `bench step` trains them.
set(fast kernels --run.deterministic=false ${repetitions})
attempt(bench_kernels gpt2-124m 120 bench ${small} ${fast})
attempt(bench_kernels "gpt2-124m, own attention" 120 bench ${small} ${fast} --run.attention=own)
set(ordered kernels --run.deterministic=true ${repetitions})  # cuDNN's backward is proved at its first call
attempt(bench_kernels "gpt2-124m, deterministic" 120 bench ${small} ${ordered} --run.algorithms=${work}/small.algorithms)
attempt(bench_kernels "qwen2-1.5b, deterministic" 120 bench ${qwen} ${ordered} --run.algorithms=${work}/qwen.algorithms)
attempt(bench_kernels "gpt2-1558m, deterministic" 120 bench ${large} ${ordered} --run.algorithms=${work}/large.algorithms)
attempt(bench_kernels qwen2-1.5b 120 bench ${qwen} ${fast})
attempt(bench_kernels gpt2-1558m 120 bench ${large} ${fast})
# Of documents kept apart, a sample's of equal length.
set(apart --data.document_mask=true --data.source=${CMAKE_CURRENT_LIST_FILE})
foreach(model large qwen)
  foreach(by "cudnn --run.deterministic=false" "cudnn --run.deterministic=true" "own --run.deterministic=false")
    separate_arguments(words UNIX_COMMAND "--run.attention=${by}")
    list(GET ${model} 0 preset)
    attempt(bench_documents "${preset}, ${by}" 120 bench ${${model}} kernels ${repetitions} ${apart} ${words})
  endforeach()
endforeach()
# Fine-tuning: adapters of a large model, and samples of whole documents next to the same text as one stream.
set(fast_steps step ${repetitions} --run.deterministic=false)
attempt(tuning "llama-8b, rank 16" 240 bench ${adapted} ${fast_steps} --lora.rank=16)
foreach(packing stream documents)
  attempt(tuning "qwen2-1.5b, ${packing}" 120 on_documents ${qwen} ${fast_steps} --data.packing=${packing})
endforeach()
attempt(profile gpt2-124m 100000 profile ${small} kernels --run.deterministic=true --bench.steps=1 --bench.warmup=0)

# Tessera, then PyTorch as fast as its users make it, on the same tokens and batch.
function(speed stage name settings)
  attempt(${stage} ${name} 100000 speed ${peer} ${settings} ${ARGN})
endfunction()
speed(speed_124m gpt2-124m ${settings_small} ${small})
speed(speed_qwen qwen2-1.5b ${settings_large} ${qwen})
speed(speed_1558m gpt2-1558m ${settings_large} ${large})
