#!/bin/bash
# Slurm 22.05.8 (Debian 12), a controller and one node on this machine: what becomes of a job whose working folder is not there,
# of one whose output file cannot be made, and of the id of a job whose sbatch cannot print it. Needs root and Debian 12's apt.
#
# Seen: a folder that is not there is no failure: the job runs in /tmp and is COMPLETED with exit code 0:0. An output file that cannot be
# made is one: FAILED with 0:53, and no line of the script runs. sbatch whose own output cannot be written exits with 0 and
# prints nothing, and the job is there.
. "$(dirname "$0")/lib.sh"
version=22.05.8-4+deb12u3
packages="slurmctld=$version slurmd=$version slurm-client=$version slurm-wlm-basic-plugins=$version munge=0.5.15-2+deb12u1
libmunge2=0.5.15-2+deb12u1 libhwloc15=2.9.0-1"
echo "packages: $packages"
cd "$folder"
for package in $packages; do apt-get download -qq "$package" > apt.log 2>&1 || { cat apt.log >&2; exit 1; }; done
for file in *.deb; do dpkg -x "$file" root; done

lib=$folder/root/usr/lib/x86_64-linux-gnu
export LD_LIBRARY_PATH=$lib/slurm-wlm:$lib PATH=$folder/root/usr/bin:$folder/root/usr/sbin:$PATH SLURM_CONF=$folder/slurm.conf
mkdir state spool
head -c 1024 /dev/urandom > key
chmod 600 key
chmod 755 .
port=$((20000 + RANDOM % 10000))
cat > slurm.conf <<CONF
ClusterName=finding
SlurmctldHost=$(hostname)(127.0.0.1)
SlurmctldPort=$port
AuthType=auth/munge
AuthInfo=socket=$folder/munge.sock
CredType=cred/munge
SlurmUser=root
SlurmdUser=root
StateSaveLocation=$folder/state
SlurmdSpoolDir=$folder/spool
SlurmctldPidFile=$folder/slurmctld.pid
SlurmdPidFile=$folder/slurmd.pid
SlurmctldLogFile=$folder/slurmctld.log
SlurmdLogFile=$folder/slurmd.log
PluginDir=$lib/slurm-wlm
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
SwitchType=switch/none
MpiDefault=none
MailProg=/bin/true
SlurmdParameters=config_overrides
NodeName=one NodeHostname=$(hostname) NodeAddr=127.0.0.1 Port=$((port + 1)) CPUs=1 State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES State=UP
CONF
munged -F --force --key-file="$folder/key" --socket="$folder/munge.sock" --pid-file="$folder/munged.pid" --seed-file="$folder/seed" \
    --log-file="$folder/munged.log" 2> /dev/null &
slurmctld -D -c -f "$SLURM_CONF" 2> /dev/null &
slurmd -D -N one -f "$SLURM_CONF" 2> /dev/null &
trap 'kill $(jobs -p); wait; rm -rf "$folder"' EXIT

within() { # SECONDS COMMAND…: until the command succeeds
    local end=$((SECONDS + $1))
    shift
    until "$@"; do
        [ "$SECONDS" -lt "$end" ] || { tail -n 5 "$folder"/*.log >&2; exit 1; }
        sleep 0.2
    done
}
idle() { [ "$(sinfo -h -o %t 2> /dev/null)" = idle ]; }
over() { scontrol -o show job "$1" | grep -q 'JobState=\(COMPLETED\|FAILED\)'; }
end_of() { scontrol -o show job "$1" | grep -o 'JobState=[A-Z]*\|ExitCode=[0-9:]*' | tr '\n' ' '; }
within 60 idle

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
