#!/usr/bin/env bash
# Checks and measures the CUDA backend on a machine with a GPU and no network. `./dev device-bundle` makes the folder
# that this lies in. Stages can be called one by one; each writes OUT/STAGE*.json and .log, and says how it ended.
#
#   ./run.sh [STAGE ...]      stages: info ops engine model receipts accept cost sanitize speed profile bench;
#                             all of them: all
#
# Free order, and the peers of bench, need cuBLASLt, which comes with a toolkit or with PyTorch. EADEM_CUBLASLT names it.
# OUT (or OUT_DIR): where results go [./out]. EADEM_SECONDS: most seconds of a stage's program [600].
set -u
cd "$(dirname "$(readlink -f "$0")")"
out=${OUT:-${OUT_DIR:-$PWD/out}}
limit=${EADEM_SECONDS:-600}
mkdir -p "$out"
export EADEM_CACHE=$PWD/cache
failed=0

# go NAME COMMAND...: its output to NAME.log, what of it is JSON to NAME.json.
go() {
  local name=$1 status
  shift
  timeout "$limit" "$@" >"$out/$name.log" 2>&1
  status=$?
  grep -E '^[{[]' "$out/$name.log" >"$out/$name.json" || true
  [ $status = 0 ] || failed=1
  printf '%-28s %s\n' "$name" "$([ $status = 0 ] && echo passed || echo "FAILED ($status)")"
  return $status
}

unpack() {
  [ -d bin ] || tar -xJf bin.tar.xz
  if [ ! -s model.gguf ] && ls model.part-* >/dev/null 2>&1; then cat model.part-* >model.gguf; fi
}

stage_info() {
  go info bin/eadem info --json
  nvidia-smi >"$out/nvidia-smi.log" 2>&1 || true
}

# Each op against this machine's kernels, byte by byte.
stage_ops() {
  local test
  for test in bin/test_*; do go "ops-${test##*/}" "$test" --gtest_brief=1; done
}

# Whole answers of random models in many shapes, all numerics.
stage_engine() { go engine bin/engine_equality --seconds "$limit"; }

questions() {
  local i
  for i in $(seq 0 19); do
    printf '{"id":"q%d","prompt":"%s %d.","max_tokens":64,"temperature":%s,"seed":%d,"logprobs":%d,"ignore_eos":true}\n' \
      "$i" "Tell me something about the number" "$i" "$([ $((i % 2)) = 0 ] && echo 0 || echo 0.9)" "$i" $((i % 4))
  done
}

have_model() { [ -s model.gguf ] || { echo "model: no parts of a model in this bundle"; return 1; }; }

# 20 prompts, greedy and drawn, 64 tokens each, on both; tokens, logprobs, keys and values.
stage_model() {
  have_model || return 0
  local numerics device
  questions >"$out/questions.jsonl"
  for numerics in mma16 fma32 int8; do
    for device in cpu cuda; do
      rm -f "$out/answers-$numerics-$device.jsonl"
      go "model-$numerics-$device" bin/eadem generate -m model.gguf --numerics $numerics --device $device \
        --in "$out/questions.jsonl" --out "$out/answers-$numerics-$device.jsonl" --kv-hash
    done
    go "model-$numerics-diff" bin/eadem diff "$out/answers-$numerics-cpu.jsonl" "$out/answers-$numerics-cuda.jsonl"
  done
}

# A receipt of either is verified by the other.
stage_receipts() {
  have_model || return 0
  [ -s "$out/signer.key" ] || go receipts-key bin/eadem keygen --out "$out/signer.key"
  questions | head -n 6 >"$out/signed-questions.jsonl"
  local device other
  for device in cpu cuda; do
    other=$([ $device = cpu ] && echo cuda || echo cpu)
    rm -f "$out/signed-$device.jsonl" "$out/receipts-$device.jsonl"
    go "receipts-$device" bin/eadem generate -m model.gguf --numerics mma16 --device $device --key "$out/signer.key" \
      --in "$out/signed-questions.jsonl" --out "$out/signed-$device.jsonl" --receipt "$out/receipts-$device.jsonl"
    go "receipts-$device-on-$other" bin/eadem verify -m model.gguf --numerics mma16 --device $other \
      "$out/receipts-$device.jsonl" --key "$out/signer.key.pub"
  done
}

stage_accept() {
  have_model || return 0
  go accept bin/eadem accept -m model.gguf --device cuda --matrix quick --out "$out/accept"
}

# What the contract costs beside free order, in pairs of runs.
stage_cost() {
  have_model || return 0
  local numerics
  for numerics in mma16 int8; do
    go "cost-$numerics" bin/eadem cost -m model.gguf --numerics $numerics --device cuda --batch 16 --pairs 16 --max-tokens 128 --json
  done
}

# What of each op's program ends soon under a sanitizer: seconds for memcheck, up to two minutes for racecheck.
small_cases=(
  "test_cuda_rows *"
  "test_cuda_attention *HeadSizes*"
  "test_prefill_attention *Chunks"
  "test_wgmma_linear *FewProcessors:*GatesOfAnySize"
  "test_cuda_linear *OtherTreesDiffer*:CudaGated.EveryNumberOfRows"
  "test_cuda_draw *Bad*"
)

# racecheck: over programs in which every thread arrives at a barrier for itself (docs/cuda.md).
stage_sanitize() {
  local sanitizer program
  sanitizer=$(command -v compute-sanitizer || ls /usr/local/cuda*/bin/compute-sanitizer 2>/dev/null | head -n1)
  [ -n "$sanitizer" ] || { echo "sanitize: there is no compute-sanitizer here"; return 0; }
  go sanitize-memcheck "$sanitizer" --tool memcheck --error-exitcode 9 bin/engine_equality --only "odd mma16"
  for program in "${small_cases[@]}"; do
    local name=${program%% *} cases=--gtest_filter=${program#* }
    go "sanitize-memcheck-$name" "$sanitizer" --tool memcheck --error-exitcode 9 "bin/$name" --gtest_brief=1 "$cases"
    go "sanitize-racecheck-$name" "$sanitizer" --tool racecheck --error-exitcode 9 "bin-racecheck/$name" --gtest_brief=1 \
      "$cases"
  done
}

# Whole steps of a model in Qwen3-8B's shape, made on the spot (16 GB in TMPDIR).
stage_speed() {
  local folder=${TMPDIR:-/tmp}
  go speed bin/engine_speed --folder "$folder"
  go speed-behind bin/engine_speed --folder "$folder" --ahead 0
  go speed-free bin/engine_speed --folder "$folder" --mode free
  go speed-no-graphs bin/engine_speed --folder "$folder" --graphs 0 --cases 1x128+64,64x1024+64
}

# Where the time of such steps goes.
stage_profile() { go profile bin/engine_speed --folder "${TMPDIR:-/tmp}" --profile 1; }

# Kernels beside cuBLASLt, and beside the measured bandwidth.
stage_bench() {
  go bench-linear bin/bench_cuda_linear "$out/bench-linear.results.json"
  go bench-many-rows bin/bench_cuda_prefill linear "$out/bench-many-rows.results.json"
  go bench-prefill-attention bin/bench_cuda_prefill attention "$out/bench-prefill-attention.results.json"
  go bench-rows bin/bench_cuda_rows "$out/bench-rows.results.json"
}

find_cublaslt() {
  [ -z "${EADEM_CUBLASLT:-}" ] || return 0
  EADEM_CUBLASLT=$(ls /usr/local/cuda*/lib64/libcublasLt.so.13 2>/dev/null | head -n1)
  [ -n "$EADEM_CUBLASLT" ] ||
    EADEM_CUBLASLT=$(python3 -c 'import nvidia.cu13 as n; print(n.__path__[0])' 2>/dev/null)/lib/libcublasLt.so.13
  if [ -e "$EADEM_CUBLASLT" ]; then export EADEM_CUBLASLT; else unset EADEM_CUBLASLT; fi
}

unpack
find_cublaslt
[ $# -gt 0 ] || { sed -n '2,12p' "$0"; exit 2; }
[ "$1" != all ] || set -- info ops engine model receipts accept cost sanitize speed profile bench
for stage in "$@"; do
  declare -F "stage_$stage" >/dev/null || { echo "run.sh: no stage '$stage'"; exit 2; }
  "stage_$stage"
done
rm -rf "${TMPDIR:-/tmp}/qwen3-8b-36"  # what the stages speed and profile share
exit $failed
