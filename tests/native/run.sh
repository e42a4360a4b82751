#!/bin/sh
# Runs test programs (arguments) through $RUN, prints each closing line and
# their sum. A program that dies before its closing line is a failure, and so is
# one whose exit code is not 0: sanitizers report leaks and races behind it.
passed=0 failed=0
for program in "$@"; do
    output=$($RUN "$program")
    code=$?
    line=$(printf '%s\n' "$output" | tail -n 1)
    case $line in
        *" passed, "*" failed") ;;
        *) line="0 passed, 1 failed" ;;
    esac
    if [ "$code" -ne 0 ]; then
        case $line in *" passed, 0 failed")
            line="${line%% passed*} passed, 1 failed" ;;
        esac
    fi
    echo "$(basename "$program"): $line"
    passed=$((passed + ${line%% passed*}))
    line=${line#*, }
    failed=$((failed + ${line%% failed}))
done
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
