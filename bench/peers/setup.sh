#!/usr/bin/env bash
# Installs the peers of `./dev bench cpu`, pinned: llama.cpp into .venv-llama, OpenVINO GenAI into .venv-openvino.
#
#   bench/peers/setup.sh [llama] [openvino]      both where none is named
#
# llama.cpp is built for this machine, about twenty minutes on two cores. clang builds it: with g++ 12 it crashes on
# machines with AMX (docs/dependencies.md). Neither is needed to build, test or run eadem.
set -euo pipefail
cd "$(dirname "$(readlink -f "$0")")/../.."

llama() {
  command -v clang-19 >/dev/null || { echo "setup.sh: needs clang-19 (./dev setup)" >&2; exit 2; }
  python3 -m venv .venv-llama
  # --no-binary for this one package: the ready-made wheels are built for no machine in particular.
  CC=clang-19 CXX=clang++-19 CMAKE_ARGS="-DGGML_NATIVE=ON" .venv-llama/bin/pip install --disable-pip-version-check \
    --no-binary llama-cpp-python -r bench/peers/requirements-llama.txt
  .venv-llama/bin/python -c 'import llama_cpp; print(llama_cpp.llama_print_system_info().decode())'
}

openvino() {
  python3 -m venv .venv-openvino
  .venv-openvino/bin/pip install --disable-pip-version-check -r bench/peers/requirements-openvino.txt
  .venv-openvino/bin/python -c 'import openvino_genai; print("OpenVINO GenAI", openvino_genai.__version__)'
}

[ $# -gt 0 ] || set -- llama openvino
for peer in "$@"; do
  case $peer in
    llama | openvino) "$peer" ;;
    *) sed -n '2,7p' "$0" >&2; exit 2 ;;
  esac
done
