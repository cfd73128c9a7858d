#!/usr/bin/env bash
# pack_gpu_check.sh: build/gpu-check.tar.xz from a built gpu_check (tests/backend_cuda/check/gpu_check.cpp): the program, its libraries except C's and C++'s, and tiny models. On the machine with the GPU:
#   tar xf gpu-check.tar.xz && cd gpu-check
#   ./gpu_check; ./gpu_check conformance; ./gpu_check model models/*.gguf; ./gpu_check speeds
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
folder=build/gpu-check
rm -rf "$folder"
mkdir -p "$folder/models"
cp build/release/tests/backend_cuda/gpu_check "$folder/"
ldd "$folder/gpu_check" | awk '/pcre2|utf8proc/ {print $3}' | xargs -I{} cp -L {} "$folder/"
for name in llama gemma3n qwen35 gpt-oss deepseek2-lite mamba2; do
  cp "tests/data/golden/$name/model.gguf" "$folder/models/$name.gguf"
done
tar -C build -cJf build/gpu-check.tar.xz gpu-check
du -h build/gpu-check.tar.xz
