# Sourced by the scripts here that need Slurm: Debian 12's 22.05.8, a controller and a node of one CPU on this machine, in
# $folder. Further lines of its configuration stand in $more. Needs root and Debian 12's apt.
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
$more
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
within 60 idle
