#include "engine/base/complete.h"

#include "engine/base/log.h"

#include <string.h>

void fr_complete_say(const char *typed, const char *word, const char *meaning)
{
    if (strncmp(word, typed, strlen(typed)) != 0 || strchr(word, '\n') != NULL)
        return;
    if (meaning[0] == '\0')
        fr_print("%s\n", word);
    else
        fr_print("%s\t%s\n", word, meaning);
}

void fr_complete_words(const char *typed, const char *words)
{
    while (words[0] != '\0') {
        size_t n = strcspn(words, " ");
        struct fr_buf one = {0};

        fr_buf_add(&one, words, n);
        if (!one.bad && n > 0)
            fr_complete_say(typed, one.p, "");
        fr_buf_finish(&one);
        words += n + (words[n] == ' ');
    }
}

/* @P is the program's name. bash replaces only the text after the last of the characters at which
 * it splits words, COMP_WORDBREAKS; COMP_LINE has the words as they were typed. */
static const char bash[] =
    "# bash completion of @P\n"
    "_@P() {\n"
    "    local line=${COMP_LINE:0:COMP_POINT} typed value candidate cut front=\n"
    "    local -a words\n"
    "    read -ra words <<< \"$line\"\n"
    "    [[ $line != *[[:space:]] ]] || words+=(\"\")\n"
    "    typed=${words[${#words[@]} - 1]}\n"
    "    value=$typed\n"
    "    [[ $typed != --*=* ]] || value=${typed#*=}\n"
    "    cut=${value%\"${value##*[$COMP_WORDBREAKS]}\"}\n"
    "    [[ $COMP_WORDBREAKS == *=* ]] || front=${typed%\"$value\"}\n"
    "    COMPREPLY=()\n"
    "    while IFS=$'\\t' read -r candidate _; do\n"
    "        case $candidate in\n"
    "        :files) compopt -o filenames; mapfile -t -O ${#COMPREPLY[@]} COMPREPLY < <(compgen -f "
    "-- \"$value\") ;;\n"
    "        :yaml) compopt -o filenames; mapfile -t -O ${#COMPREPLY[@]} COMPREPLY < <(compgen -d "
    "-- \"$value\"; compgen -f -X '!*.y*ml' -- \"$value\") ;;\n"
    "        :folders) compopt -o filenames; mapfile -t -O ${#COMPREPLY[@]} COMPREPLY < <(compgen "
    "-d -- \"$value\") ;;\n"
    "        *) COMPREPLY+=(\"$front$(printf %q \"${candidate#\"$cut\"}\")\") ;;\n"
    "        esac\n"
    "    done < <(\"${1/#\\~/$HOME}\" complete \"${words[@]:1}\" 2> /dev/null)\n"
    "    [[ ${#COMPREPLY[@]} -ne 1 || ${COMPREPLY[0]} != *= ]] || compopt -o nospace\n"
    "}\n"
    "complete -F _@P @P\n";

static const char zsh[] =
    "#compdef @P\n"
    "_@P() {\n"
    "    local line kind\n"
    "    local -a said kinds\n"
    "    for line in ${(f)\"$(\"${(Q)words[1]}\" complete \"${(@Q)words[2,CURRENT-1]}\" "
    "\"${(Q)PREFIX}\" 2> /dev/null)\"}; do\n"
    "        case $line in\n"
    "        :files|:yaml|:folders) kinds+=$line ;;\n"
    "        *$'\\t'*) said+=\"${${line%%$'\\t'*}//:/\\\\:}:${line#*$'\\t'}\" ;;\n"
    "        *) said+=${line//:/\\\\:} ;;\n"
    "        esac\n"
    "    done\n"
    "    compset -P '--*='\n"
    "    (( ! $#said )) || _describe -t words @P said\n"
    "    for kind in $kinds; do\n"
    "        case $kind in\n"
    "        :files) _files ;;\n"
    "        :yaml) _files -g '*.y(a|)ml' ;;\n"
    "        :folders) _files -/ ;;\n"
    "        esac\n"
    "    done\n"
    "}\n"
    "if [[ $zsh_eval_context[-1] == loadautofunc ]]; then _@P \"$@\"; else compdef _@P @P; fi\n";

static const char fish[] =
    "# fish completion of @P\n"
    "function __@P_complete\n"
    "    set -l words (commandline -opc)\n"
    "    set -l typed (commandline -ct)\n"
    "    set -l option (string match -r '^--[^=]*=' -- $typed; or echo '')\n"
    "    set -l value (string replace -r '^--[^=]*=' '' -- \"$typed\")\n"
    "    for line in ($words[1] complete $words[2..-1] \"$typed\" 2>/dev/null)\n"
    "        switch $line\n"
    "            case ':files'\n"
    "                string join \\n -- $option(__fish_complete_path \"$value\")\n"
    "            case ':yaml'\n"
    "                string join \\n -- $option(__fish_complete_path \"$value\" | string match -r "
    "'^.*(?:/|\\.ya?ml)(?:\\t.*)?$')\n"
    "            case ':folders'\n"
    "                string join \\n -- $option(__fish_complete_directories \"$value\")\n"
    "            case '*'\n"
    "                string join \\n -- \"$option$line\"\n"
    "        end\n"
    "    end\n"
    "end\n"
    "complete -c @P -f -a '(__@P_complete)'\n";

enum fr_rc fr_complete_script(const char *shell, const char *program, struct fr_buf *out,
                              struct fr_err *err)
{
    const struct {
        const char *name, *script;
    } shells[] = {{"bash", bash}, {"zsh", zsh}, {"fish", fish}};
    const char *script = NULL;

    for (size_t i = 0; i < sizeof(shells) / sizeof(shells[0]); i++)
        if (strcmp(shell, shells[i].name) == 0)
            script = shells[i].script;
    if (script == NULL)
        return fr_fail(err, FR_USAGE, "completion is there for bash, zsh and fish, not for '%s'",
                       shell);
    for (const char *p = script, *at; p[0] != '\0'; p = at + (at[0] != '\0' ? 2 : 0)) {
        if ((at = strstr(p, "@P")) == NULL)
            at = p + strlen(p);
        fr_buf_add(out, p, (size_t)(at - p));
        if (at[0] != '\0')
            fr_buf_text(out, program);
    }
    return out->bad ? fr_fail(err, FR_NOMEM, "no memory for the script") : FR_OK;
}
