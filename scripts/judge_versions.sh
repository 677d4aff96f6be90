#!/usr/bin/env bash
# Judge torchnp under every version of torch that it knows, each in an environment of its own.
# A build of torch takes up to 6 GB of disk and a run half an hour of two cores: run it before a release, and weekly.
#
#   bash scripts/judge_versions.sh                every known version
#   bash scripts/judge_versions.sh 2.13 2.14      these
#
# For each version: the quick tier with the table on that version, the quick tier with the table on the version before
# (--against: every failure is a listed change, and every listed change is seen), the tests of the mode, the device,
# compile, programs and the remote tensor, and the demo. Environments and logs are in versions/, or in
# $TORCHNP_VERSIONS; an environment that is there is used again. The last lines are a table for docs/versions.md.
set -uo pipefail
cd "$(dirname "$0")/.."
case ${1:-} in -h | --help) sed -n '2,/^set/p' "$0" | sed '$d; s/^# \{0,1\}//'; exit ;; esac
export OMP_NUM_THREADS=${OMP_NUM_THREADS:-1} TORCH_CPP_LOG_LEVEL=ERROR
home=${TORCHNP_VERSIONS:-versions}
jobs=$(env -u OMP_NUM_THREADS nproc)  # nproc counts OMP_NUM_THREADS, if it is set
mkdir -p "$home"
mapfile -t known < <(PYTHONPATH=. python3 -c "from torchnp.core.target import KNOWN, spell; print(*map(spell, KNOWN), sep='\n')")
asked=("${@:-${known[@]}}")

table=()
failed=0
for version in "${asked[@]}"; do
    if [[ ! " ${known[*]} " == *" $version "* ]]; then
        echo "judge_versions.sh: torchnp knows ${known[*]}, not $version" >&2
        exit 2
    fi
    environment=$home/$version
    printf '== torch %s\n' "$version"
    if [ ! -x "$environment/bin/python" ]; then
        python3 -m venv "$environment"
        "$environment/bin/pip" install --quiet --disable-pip-version-check -e ".[test]" "torch==$version.*" \
            >"$home/$version-install.log" 2>&1 || { echo "   pip failed: see $home/$version-install.log"; failed=1; continue; }
    fi
    python=$environment/bin/python
    row="| $version |"
    step() {  # a name for the log, and the command
        local log=$home/$version-$1.log begun=$SECONDS
        "${@:2}" >"$log" 2>&1
        local status=$?
        printf '   %s: exit status %s after %s min\n' "$1" "$status" "$(((SECONDS - begun) / 60))"
        [ $status -eq 0 ] && row+=" yes |" || { row+=" no |"; failed=1; }
    }
    step judged "$python" -W ignore -m opinfo_tests --tier quick --jobs "$jobs"
    before=
    for v in "${known[@]}"; do [ "$v" = "$version" ] && break; before=$v; done
    if [ -n "$before" ]; then
        step changes "$python" -W ignore -m opinfo_tests --tier quick --jobs "$jobs" --against "$before"
    else
        row+=" |"
    fi
    step tests "$python" -m pytest -q -n "$jobs" -p no:cacheprovider torchnp/tests/{interop,device,runtime} \
        torchnp/tests/core/test_target.py torchnp/tests/lookup/test_version_changes.py
    step demo "$environment/bin/torchnp" demo --epochs 1
    libraries=$("$python" -W ignore -c "import platform, numpy; print(platform.python_version(), '|', numpy.__version__)")
    table+=("$row $libraries | $(date -u +%F) |")
done

echo "| torch | judged | changes | tests | demo | Python | NumPy | run on |"
echo "|---|---|---|---|---|---|---|---|"
printf '%s\n' "${table[@]}"
exit $failed
