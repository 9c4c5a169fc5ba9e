#include "tests/cudasim/kernels.h"

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <cxxabi.h>
#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <mutex>
#include <set>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static std::mutex lock; /* ranks are host threads */
static std::set<const void *> launched;

void sim_kernel_launched(const void *kernel)
{
    std::lock_guard<std::mutex> hold(lock);

    launched.insert(kernel);
}

static int first_object(struct dl_phdr_info *info, size_t, void *base)
{
    *static_cast<uintptr_t *>(base) = info->dlpi_addr;
    return 1; /* the program itself comes first */
}

/* "void x_kernel<a, b>(arguments)" without the type and the arguments; empty: no kernel. */
static std::string kernel_name(const char *symbol)
{
    int status = 0;
    char *text = strchr(symbol, '.') == nullptr /* a part of a function */
                     ? abi::__cxa_demangle(symbol, nullptr, nullptr, &status)
                     : nullptr;
    std::string name = text != nullptr ? text : "";
    size_t end = name.find("_kernel");

    free(text);
    if (end == std::string::npos || name.find('(') < end || name.find("{lambda") < name.size() ||
        name.find('<') < end)
        return "";
    end += strlen("_kernel");
    if (end < name.size() && name[end] != '<' && name[end] != '(')
        return "";
    for (int depth = 0; end < name.size() && (depth > 0 || name[end] != '('); end++)
        depth += (name[end] == '<') - (name[end] == '>');
    name = name.substr(0, end);
    return name.rfind("void ", 0) == 0 ? name.substr(strlen("void ")) : name;
}

/* Of one table of symbols. */
static void add_idle(const char *image, const Elf64_Shdr *table, const Elf64_Shdr *names,
                     std::vector<std::string> *idle)
{
    const Elf64_Sym *all = reinterpret_cast<const Elf64_Sym *>(image + table->sh_offset);
    uintptr_t base = 0;

    dl_iterate_phdr(first_object, &base);
    for (size_t i = 0; i < table->sh_size / sizeof *all; i++) {
        const void *at = reinterpret_cast<const void *>(base + all[i].st_value);
        const char *symbol = image + names->sh_offset + all[i].st_name;

        if (ELF64_ST_TYPE(all[i].st_info) != STT_FUNC || strstr(symbol, "_kernel") == nullptr ||
            launched.count(at) != 0)
            continue;
        std::string name = kernel_name(symbol);

        if (!name.empty())
            idle->push_back(name);
    }
}

bool sim_idle_kernels(std::vector<std::string> *idle)
{
    int fd = open("/proc/self/exe", O_RDONLY);
    struct stat s = {};
    bool found = false;
    void *p = fd >= 0 && fstat(fd, &s) == 0
                  ? mmap(nullptr, (size_t)s.st_size, PROT_READ, MAP_PRIVATE, fd, 0)
                  : MAP_FAILED;

    if (fd >= 0)
        close(fd);
    if (p == MAP_FAILED)
        return false;
    const char *image = static_cast<const char *>(p);
    const Elf64_Ehdr *head = reinterpret_cast<const Elf64_Ehdr *>(image);
    const Elf64_Shdr *section = reinterpret_cast<const Elf64_Shdr *>(image + head->e_shoff);

    for (int i = 0; i < head->e_shnum; i++)
        if (section[i].sh_type == SHT_SYMTAB) {
            add_idle(image, &section[i], &section[section[i].sh_link], idle);
            found = true;
        }
    munmap(p, (size_t)s.st_size);
    std::sort(idle->begin(), idle->end());
    return found;
}
