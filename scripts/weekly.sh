#!/usr/bin/env bash
# The checks that take hours: all steps, or those that are named. Run them weekly and before a release.
# Needs the environment of CONTRIBUTING.md (pip install -e ".[all]"); on two cores everything takes a night.
#
#   bash scripts/weekly.sh              every step
#   bash scripts/weekly.sh --list       the steps
#   bash scripts/weekly.sh proof rows   these
#
# Each step's output goes to weekly/STEP.log, or to $TORCHNP_WEEKLY/STEP.log. A step that fails does not stop the others;
# the last lines say which failed, and the exit status is 1.
set -uo pipefail
cd "$(dirname "$0")/.."
export OMP_NUM_THREADS=${OMP_NUM_THREADS:-1} TORCH_CPP_LOG_LEVEL=ERROR
jobs=$(env -u OMP_NUM_THREADS nproc)  # nproc counts OMP_NUM_THREADS, if it is set
week=$(date -u +%V)  # another choice of mutants and of calls each week
logs=${TORCHNP_WEEKLY:-weekly}

# step name | what it shows | command
steps=(
    "tests|the tests that CI leaves out|pytest -n $jobs -m weekly"
    "draws|100 drawn calls of each overload, and another choice of torch's samples in all dtypes|pytest -n $jobs opinfo_tests/test_suite.py --opinfo-draws 100 --opinfo-dtypes all --opinfo-seed $week"
    "full|every call of the harness|python -m opinfo_tests --tier full --jobs $jobs"
    "thresholds|calls just below, at and above each size at which a kernel takes another path|python -m opinfo_tests --tier thresholds --jobs $jobs"
    "large|calls of a million elements and layers of models: values, time and memory beside torch's|python -m opinfo_tests --tier large --jobs $jobs"
    "remote|the remote tensor, all dtypes|python -m opinfo_tests --backend remote-local --tier quick --jobs $jobs"
    "strict|portable rows on array-api-strict|python -m opinfo_tests --backend array-api-strict --max 8 --dtypes float32,int64,bool,complex64 --draws 0 --no-backward --jobs $jobs"
    "jax|portable rows on JAX|python -m opinfo_tests --backend array-api-jax --max 3 --dtypes float32,int64,bool --draws 0 --no-errors --no-backward --jobs $jobs"
    "dask|portable rows on Dask arrays of two chunks|python -m opinfo_tests --backend array-api-dask --max 3 --dtypes float32,int64,bool --draws 0 --no-errors --no-backward --jobs $jobs"
    "torch|portable rows on torch as an array library|python -m opinfo_tests --backend array-api-torch --max 3 --dtypes float32,int64,bool --draws 0 --no-errors --no-backward --jobs $jobs"
    "proof|each disagreement of NumPy and torch is explained by a difference|python -m opinfo_tests --proof"
    "rows|no row changes another's bits under a row label, for an hour|python -m torchnp.tests.rpc.row_bits --minutes 60"
    "mutants|200 wrong kernels are caught|python -m opinfo_tests.mutate -n 200 --seed $week --jobs $jobs"
    "faults|the faults that reviewers wrote are caught|python -m opinfo_tests.mutate --from --tier quick --jobs $jobs"
    "data|the recorded data is what torch says|python -W ignore scripts/make_data.py --check"
)

usage() { sed -n '2,/^set/p' "$0" | sed '$d; s/^# \{0,1\}//'; }

chosen=()
for word in "$@"; do
    case $word in
        -h | --help) usage; exit ;;
        --list) printf '%s\n' "${steps[@]}" | cut -d '|' -f 1,2 | column -t -s '|'; exit ;;
        *)
            if ! printf '%s\n' "${steps[@]}" | grep -q "^$word|"; then
                echo "weekly.sh: there is no step $word; --list shows them" >&2
                exit 2
            fi
            chosen+=("$word") ;;
    esac
done

mkdir -p "$logs"
failed=()
for line in "${steps[@]}"; do
    IFS='|' read -r name shows command <<<"$line"
    [ ${#chosen[@]} -eq 0 ] || [[ " ${chosen[*]} " == *" $name "* ]] || continue
    printf '== %s: %s\n   %s > %s/%s.log\n' "$name" "$shows" "$command" "$logs" "$name"
    begun=$SECONDS
    $command >"$logs/$name.log" 2>&1
    status=$?
    [ $status -eq 0 ] || failed+=("$name")
    printf '   exit status %s after %s min; the last line: %s\n' "$status" "$(((SECONDS - begun) / 60))" "$(tail -n 1 "$logs/$name.log")"
done
if [ ${#failed[@]} -gt 0 ]; then
    echo "failed: ${failed[*]}"
    exit 1
fi
echo "all passed"
