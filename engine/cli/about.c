/* version: the version and the build; with --verbose also kernel and libraries. */
#include "engine/base/built.h"
#include "engine/base/log.h"
#include "engine/cli/cli.h"
#include "engine/notify/curl.h"

#include <event2/event.h>
#include <gnu/libc-version.h>
#include <libssh2.h>
#include <sqlite3.h>
#include <sys/utsname.h>
#include <yaml.h>

#ifdef FLOWRUN_OPENSSL
#include <openssl/crypto.h>
#define CRYPTO OpenSSL_version(OPENSSL_VERSION)
#else
#define CRYPTO "the system's, not OpenSSL"
#endif

static void print_libraries(void)
{
    struct utsname u;
    struct fr_buf curl = {0};

    fr_curl_version(&curl);
    if (uname(&u) == 0)
        fr_print("kernel   %s %s %s\n", u.sysname, u.release, u.machine);
    fr_print("libc     glibc %s\n", gnu_get_libc_version());
    fr_print("sqlite   %s\n", sqlite3_libversion());
    fr_print("libevent %s\n", event_get_version());
    fr_print("libssh2  %s; %s\n", libssh2_version(0), CRYPTO);
    fr_print("libyaml  %s\n", yaml_get_version_string());
    fr_print("jansson  %s\n", jansson_version_str());
    fr_print("libcurl  %s\n", curl.bad || curl.n == 0 ? "not found: messages need it" : curl.p);
    fr_buf_finish(&curl);
}

enum fr_rc cli_version(struct cli_call *c, struct fr_err *err)
{
    (void)err;
    fr_print("flowrun %s (%s)\n", FLOWRUN_VERSION, fr_built);
    if (cli_has(c, "--verbose"))
        print_libraries();
    return FR_OK;
}
