#!/bin/sh
# Builds the fuzz targets and runs each for SECONDS (first argument, 60).
#
# With clang and its libFuzzer under ASan and UBSan. Without them gcc's
# sanitizers replay the seeds and mutations of them, and the output says so.
# CLANG names the only compiler to try (`CLANG=none`: replay).
# PS_SEED (1) is the seed of both. An input that kills a target stays in
# tests/fuzz/build.
set -eu
cd "$(dirname "$0")"
seconds=${1:-60}
seed=${PS_SEED:-1}
native=../native
core=""
for part in checksum checksum_arm checksum_portable checksum_tables checksum_x86 \
    error parse properties record scan source source_check text topics wire; do
    core="$core ../../csrc/$part.c"
done
base="-std=c11 -D_GNU_SOURCE -UNDEBUG -O1 -g -fno-omit-frame-pointer
      -fno-sanitize-recover=all -I../../csrc -I$native"
mkdir -p build

# Prints a clang that can link libFuzzer, or nothing.
find_clang() {
    echo 'int LLVMFuzzerTestOneInput(const unsigned char *d, unsigned long n);
          int LLVMFuzzerTestOneInput(const unsigned char *d, unsigned long n)
          { return d == (void *)n; }' >build/probe.c
    for compiler in ${CLANG:-clang clang-19 clang-18 clang-17 clang-16 \
        clang-15 clang-14}; do
        if $compiler -fsanitize=fuzzer,address build/probe.c \
            -o build/probe 2>build/probe.log; then
            echo "$compiler"
            return
        fi
    done
}

clang=$(find_clang)
${CC:-cc} $base seeds.c $native/support_records.c $core -o build/seeds -lpthread
for target in fuzz_scan fuzz_source fuzz_wire; do
    rm -rf "build/$target.corpus"
    mkdir -p "build/$target.corpus"
    build/seeds $target "build/$target.corpus"
    if [ -n "$clang" ]; then
        $clang $base -fsanitize=fuzzer,address,undefined $target.c \
            $native/support_records.c $core -o build/$target -lpthread
        echo "$target: libFuzzer, $seconds s, seed $seed"
        if ! (cd build && ./$target -max_total_time="$seconds" -seed="$seed" \
            -max_len=16384 -print_final_stats=1 $target.corpus \
            >$target.log 2>&1); then
            tail -n 60 build/$target.log
            exit 1
        fi
        grep 'executed_units' build/$target.log
    else
        ${CC:-cc} $base -fsanitize=address,undefined $target.c replay.c \
            $native/support_records.c $core -o build/$target -lpthread
        echo "$target: $(cd build && ./$target "$seconds" "$seed" \
            $target.corpus/*)"
    fi
done
