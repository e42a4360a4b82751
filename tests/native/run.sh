#!/bin/sh
# Runs test programs (arguments) through $RUN, prints each closing line and
# their sum. A program that dies before its closing line is a failure.
passed=0 failed=0
for program in "$@"; do
    line=$($RUN "$program" | tail -n 1)
    case $line in
        *" passed, "*" failed") ;;
        *) line="0 passed, 1 failed" ;;
    esac
    echo "$(basename "$program"): $line"
    passed=$((passed + ${line%% passed*}))
    line=${line#*, }
    failed=$((failed + ${line%% failed}))
done
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
