#!/bin/bash
# Slurm 22.05.8 (Debian 12), a controller and one node on this machine: what the state of a job says that was preempted
# (PreemptMode=CANCEL) and whose step saves and ends at SIGTERM. Needs root and Debian 12's apt.
#
# Seen: without GraceTime it is PREEMPTED. With GraceTime the step is told while its job still counts as RUNNING, and the job is
# COMPLETED with exit code 0:0, as if nothing had happened: only its own files say that its work was cut.
more='PreemptType=preempt/partition_prio
PreemptMode=CANCEL
PartitionName=urgent Nodes=ALL PriorityTier=9 PreemptMode=OFF State=UP'
. "$(dirname "$0")/slurm.sh"

printf '#!/bin/sh\nexec srun --export=ALL sh %s/step "$1"\n' "$folder" > job.sh
cat > step <<'STEP'
trap 'echo saved > "$1.saved"; exit 0' TERM
echo > "$1.up"
while :; do sleep 0.1; done
STEP
runs() { [ "$(squeue -h -j "$1" -o %T)" = RUNNING ] && [ -e "$2.up" ]; }
over() { ! squeue -h -j "$1" -o %T | grep -q .; }

preempt() { # NAME: what becomes of a job whose node an urgent one takes
    local job urgent
    job=$(sbatch --parsable -D "$folder" -o /dev/null job.sh "$folder/$1")
    within 60 runs "$job" "$folder/$1"
    urgent=$(sbatch --parsable -p urgent -D / -o /dev/null --wrap 'sleep 600')
    within 120 over "$job"
    echo "$1: $(scontrol -o show job "$job" | grep -o 'JobState=[A-Z]*\|ExitCode=[0-9:]*' | tr '\n' ' ')$(test -e "$1.saved" && echo saved || echo told nothing)"
    scancel "$urgent"
    within 60 idle
}
{
    preempt no-grace
    scontrol update PartitionName=all GraceTime=20
    preempt grace
} > output
cat output
cat > stated <<STATED
no-grace: JobState=PREEMPTED ExitCode=0:0 saved
grace: JobState=COMPLETED ExitCode=0:0 saved
STATED
diff stated output || { echo "not as stated (< stated, > now)"; exit 1; }
echo "as stated"
