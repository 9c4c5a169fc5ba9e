#!/bin/bash
# Slurm 22.05.8 (Debian 12), a controller and one node on this machine: what becomes of a job whose working folder is not there,
# of one whose output file cannot be made, and of the id of a job whose sbatch cannot print it. Needs root and Debian 12's apt.
#
# Seen: a folder that is not there is no failure: the job runs in /tmp and is COMPLETED with exit code 0:0. An output file that cannot be
# made is one: FAILED with 0:53, and no line of the script runs. sbatch whose own output cannot be written exits with 0 and
# prints nothing, and the job is there.
more=
. "$(dirname "$0")/slurm.sh"

over() { scontrol -o show job "$1" | grep -q 'JobState=\(COMPLETED\|FAILED\)'; }
end_of() { scontrol -o show job "$1" | grep -o 'JobState=[A-Z]*\|ExitCode=[0-9:]*' | tr '\n' ' '; }

printf '#!/bin/sh\npwd\n' > job.sh
a=$(sbatch --parsable -D "$folder/nowhere" -o "$folder/a" job.sh)
b=$(sbatch --parsable -D / -o "$folder/nowhere/b" job.sh)
within 60 over "$a"
within 60 over "$b"
code=0
sbatch --parsable -J unsaid -D / -o "$folder/c" job.sh > /dev/full 2> said || code=$?
{
    echo "a folder that is not there: $(end_of "$a")and ran in $(tail -n 1 a)"
    echo "an output file that cannot be made: $(end_of "$b")and $(test -e nowhere && echo ran || echo did not run)"
    echo "sbatch that cannot print: exit status $code, it said \"$(cat said)\", jobs of that name: $(squeue -h -t all --name=unsaid | wc -l)"
} > output
cat output
cat > stated <<STATED
a folder that is not there: JobState=COMPLETED ExitCode=0:0 and ran in /tmp
an output file that cannot be made: JobState=FAILED ExitCode=0:53 and did not run
sbatch that cannot print: exit status 0, it said "", jobs of that name: 1
STATED
diff stated output || { echo "not as stated (< stated, > now)"; exit 1; }
echo "as stated"
