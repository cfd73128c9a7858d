#!/usr/bin/env bash
# fuzz.sh [SECONDS]: builds the fuzz targets with clang and runs each of them for that long (default 60), starting
# from its committed seeds (fuzz/NAME/seeds). What it finds on the way stays under build/fuzz/corpus.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
seconds="${1:-60}"
build=build/fuzz

[[ -f $build/build.ninja ]] || cmake -G Ninja -S . -B "$build" --log-level=WARNING -DCMAKE_BUILD_TYPE=RelWithDebInfo \
  -DCMAKE_CXX_COMPILER=clang++-19 -DWEFT_FUZZ=ON -DBUILD_TESTING=OFF
cmake --build "$build" --target fuzzers

shopt -s nullglob
found=0
for program in "$build"/fuzz/fuzz_*; do
  [[ -f $program && -x $program ]] || continue
  found=1
  target="$(basename "$program")"
  mkdir -p "$build/corpus/$target"
  seeds=("fuzz/${target#fuzz_}/seeds")
  [[ -d ${seeds[0]} ]] || seeds=()
  echo "== $target, $seconds s"
  "$program" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=2048 -print_final_stats=1 \
    -artifact_prefix="$build/$target-" "$build/corpus/$target" "${seeds[@]}"
done
((found)) || { echo "fuzz: no fuzz target was built" >&2; exit 1; }
