/* clang-format off */
/* The fields of struct fr_request and of the structs inside it, as protocol.h has those of
 * messages. A record of FR_RECORD also gets a list: struct NAMEs, {struct NAME *v; size_t n}. */

/* A file for the attempt's folder, copied there at prepare. */
FR_RECORD(file, fr_file_want)
    FR_FIELD(TEXT, store) /* path in the node's store (put_begin.path), or absolute on the node */
    FR_FIELD(TEXT, path)  /* relative, without ".." */
    FR_FIELD(U32, mode)
FR_END
/* Started before the command and stopped after it by its supervisor. Its output goes into the same
 * log, each line prefixed "[name] ". Its end does not end the attempt. */
FR_RECORD(sidecar, fr_sidecar)
    FR_FIELD(TEXT, name)
    FR_FIELD(TEXTS, argv)
    FR_FIELD(TEXTS, env)
    FR_FIELD(TEXT, cwd)
FR_END
/* The command runs inside a running container: RUNTIME exec -d NAME FLOWNODE shim --home HOME … */
FR_RECORD(container, fr_container)
    FR_FIELD(TEXT, runtime)  /* "" no container; else the command: "podman", "docker", or a path */
    FR_FIELD(TEXT, name)
    FR_FIELD(TEXT, flownode) /* path of the program inside */
    FR_FIELD(TEXT, home)     /* where the node home is mounted inside */
FR_END
FR_RECORD(request, fr_request)
    FR_FIELD(TEXTS, argv)       /* argv[0]: path, name on the command's PATH, FR_ARGV_FLOWNODE */
    FR_FIELD(TEXTS, env)        /* "K=V"; a later one wins */
    FR_FIELD(TEXTS, secret_env) /* "K=V": never on a disk; their values are masked in the log */
    FR_FIELD(TEXTS, mask)       /* further values to mask */
    FR_FIELD(TEXT, cwd)         /* "": the attempt's folder; a relative path is below that */
    FR_FIELD(BYTES, input)      /* bytes on stdin; none: /dev/null */
    FR_FIELD(I64, timeout_ms)   /* from launch; 0: none */
    FR_FIELD(I64, grace_ms)     /* between SIGTERM and SIGKILL, for time-out and end of lease */
    FR_FIELD(I64, lease_ms)     /* the attempt stops itself that long after a renewal; 0: never */
    FR_FIELD(I64, log_max_bytes) /* 0: no limit */
    FR_FIELD(U32, log_on_full)  /* enum fr_log_full */
    FR_FIELD(TEXTS, outputs)    /* declared names; any other written name is an error */
    FR_INNER(LIST, fr_file_want, files)
    FR_INNER(LIST, fr_sidecar, sidecars)
    FR_INNER(STRUCT, fr_container, container)
    FR_FIELD(BOOL, become)      /* run the command (not the sidecars) through sudo -n */
    FR_FIELD(I32, port)         /* to hold until launch: FR_PORT_NONE, FR_PORT_ANY, or a number */
    FR_FIELD(U32, ports_more)   /* if port is taken: the first free of so many above it */
    /* Processes that the command leaves running when it exits with 0 go on, such as the monitor of
     * a container. Otherwise they are stopped. Not with sidecars. */
    FR_FIELD(BOOL, leaves)
    FR_FIELD(U32, umask)        /* of command and sidecars, as fr_spawn.umask; 0: as flownode */
    /* A file of JSON lines that the command writes: copied as it grows (supervise/metrics.h). "":
     * none. A relative path is below the command's cwd, "$FLOWRUN_WORK/…" and "$FLOWRUN_DIR/…"
     * are below these folders. */
    FR_FIELD(TEXT, metrics)
    FR_FIELD(I64, notice_ms)    /* it is stopped so long before deadline_wall; 0: not */
    FR_FIELD(I64, deadline_wall) /* ms by the calendar: its job of Slurm is ended then; 0: never */
FR_END

#undef FR_RECORD
#undef FR_FIELD
#undef FR_INNER
#undef FR_END
/* clang-format on */
