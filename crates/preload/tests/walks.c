/* Walks through a tree in the directory that it is given, by what the C library has for that, and prints what it is told. It has to
 * print the same on the machine's own file system and on a drive. The order of names in a directory is nobody's. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <fts.h>
#include <ftw.h>
#include <glob.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static char base[PATH_MAX];
static char *lines[1000];
static int count;

#define NOTE(...) do { if (asprintf(&lines[count++], __VA_ARGS__) < 0) abort(); } while (0)

static int by_text(const void *a, const void *b) { return strcmp(*(char **)a, *(char **)b); }

/* What was noted, in order of the texts, and the error if there is one. */
static void say(const char *what, long value, int error) {
    printf("%s = %ld %s\n", what, value, value < 0 ? strerrorname_np(error) : "");
    qsort(lines, count, sizeof *lines, by_text);
    for (int i = 0; i < count; i++) {
        printf("  %s\n", lines[i]);
        free(lines[i]);
    }
    count = 0;
    fflush(stdout);
}

#define SAY(call) do { errno = 0; long value_ = (long)(call); say(#call, value_, errno); } while (0)

/* A path without the part that depends on where this is. */
static const char *below(const char *path) {
    size_t n = strlen(base);
    return strncmp(path, base, n) ? path : path[n] ? path + n + 1 : "<base>";
}

static void file(const char *path, const char *text) {
    int fd = open(path, O_CREAT | O_WRONLY, 0644);
    write(fd, text, strlen(text));
    close(fd);
}

static void tree(void) {
    mkdir("tree", 0755);
    mkdir("tree/a", 0755);
    mkdir("tree/a/b", 0755);
    mkdir("tree/empty", 0755);
    file("tree/one.c", "1");
    file("tree/two.c", "22");
    file("tree/.hidden", "333");
    file("tree/a/three.h", "4444");
    file("tree/a/b/four.c", "55555");
    symlink("one.c", "tree/link");
    mkdir("other", 0755);
    file("other/five.c", "666666");
    symlink("../other", "tree/other");
    symlink("nowhere", "tree/broken");
    symlink("..", "tree/a/b/up");
}

static int stop_at = -1, answer;

static int plain(const char *path, const struct stat *s, int what) {
    NOTE("%s %d %ld", below(path), what, what == FTW_F ? (long)s->st_size : 0);
    return count == stop_at ? 7 : 0;
}

static int more(const char *path, const struct stat *s, int what, struct FTW *at) {
    char here[PATH_MAX] = "";
    getcwd(here, sizeof here);
    NOTE("%s %d %ld level %d base '%s' in %s", below(path), what, what == FTW_F ? (long)s->st_size : 0, at->level, path + at->base,
         below(here));
    if (count == stop_at) return 7;
    return answer && !strcmp(path + at->base, "a") && (what == FTW_D || what == FTW_DP) ? answer : 0;
}

static void walks(void) {
    char path[PATH_MAX + 10];
    snprintf(path, sizeof path, "%s/tree", base);
    SAY(ftw("tree", plain, 5));
    SAY(ftw(path, plain, 1));
    SAY(ftw("tree/one.c", plain, 5));
    SAY(ftw("tree/none", plain, 5));
    SAY(ftw("tree/broken", plain, 5));
    SAY(nftw("tree", more, 5, FTW_PHYS));
    SAY(nftw("tree/", more, 5, FTW_PHYS | FTW_DEPTH));
    SAY(nftw("tree", more, 5, 0));
    SAY(nftw(path, more, 2, FTW_DEPTH | FTW_MOUNT));
    SAY(nftw("tree", more, 5, FTW_CHDIR | FTW_PHYS));
    SAY(nftw(path, more, 5, FTW_CHDIR | FTW_PHYS | FTW_DEPTH));
    SAY(nftw("tree/link", more, 5, FTW_PHYS));
    SAY(nftw("tree/broken", more, 5, FTW_PHYS));
    SAY(nftw("tree/broken", more, 5, 0));
    SAY(nftw("tree/none", more, 5, 0));
    SAY(nftw("tree", more, 5, 1024));
    stop_at = 1;
    SAY(nftw("tree", more, 5, FTW_PHYS));
    SAY(ftw("tree", plain, 5));
    stop_at = -1;
    answer = FTW_SKIP_SUBTREE;
    SAY(nftw("tree", more, 5, FTW_PHYS | FTW_ACTIONRETVAL));
    answer = FTW_STOP;
    SAY(nftw("tree/a", more, 5, FTW_PHYS | FTW_ACTIONRETVAL));
    answer = FTW_SKIP_SIBLINGS;
    SAY(nftw("tree/a", more, 5, FTW_PHYS | FTW_ACTIONRETVAL));
    answer = 0;
    char here[PATH_MAX] = "";
    getcwd(here, sizeof here);
    NOTE("%s", below(here));
    SAY(chdir("tree/a"));
    SAY(nftw("..", more, 5, FTW_PHYS | FTW_CHDIR));
    SAY(nftw(".", more, 5, FTW_PHYS | FTW_DEPTH));
    SAY(chdir("../.."));
}

static int entries_by_name(const FTSENT **a, const FTSENT **b) { return strcmp((*a)->fts_name, (*b)->fts_name); }

static void entry(const FTSENT *e) {
    printf("  %s '%s' info %d level %d lengths %d %d errno %d %ld cycle %s parent %d\n", below(e->fts_path), e->fts_name, e->fts_info, e->fts_level,
           e->fts_pathlen - (e->fts_path[0] == '/' ? (int)strlen(base) : 0), e->fts_namelen, e->fts_errno,
           e->fts_info == FTS_F ? (long)e->fts_statp->st_size : 0, e->fts_info == FTS_DC ? e->fts_cycle->fts_name : "", e->fts_parent->fts_level);
}

static void fts(const char *name, int options, int instruction, char *const *paths) {
    printf("fts %x %s %d\n", options, name, instruction);
    FTS *f = fts_open(paths, options, entries_by_name);
    if (!f) {
        printf("  %s\n", strerrorname_np(errno));
        return;
    }
    int is_done = 0;
    for (FTSENT *e; (e = fts_read(f));) {
        entry(e);
        if (name && !is_done && !strcmp(e->fts_name, name)) {
            is_done = 1;
            printf("  set %d\n", fts_set(f, e, instruction));
        }
    }
    printf("  end %d close %d\n", errno, fts_close(f));
    fflush(stdout);
}

static void children(int options) {
    char *paths[] = {"tree", NULL};
    FTS *f = fts_open(paths, FTS_PHYSICAL | FTS_NOCHDIR, entries_by_name);
    for (FTSENT *e = fts_children(f, 0); e; e = e->fts_link) printf("  root %s\n", e->fts_name);
    for (FTSENT *e; (e = fts_read(f));) {
        printf("  %s info %d\n", e->fts_path, e->fts_info);
        if (e->fts_info != FTS_D) continue;
        for (FTSENT *c = fts_children(f, options); c; c = c->fts_link) {
            printf("    child %s\n", c->fts_name);
            if (!options && !strcmp(c->fts_name, "empty")) fts_set(f, c, FTS_SKIP);
        }
    }
    errno = 0;
    printf("  %d", fts_children(f, 77) == NULL);
    printf(" %s", strerrorname_np(errno));
    printf(" %d\n", fts_close(f));
}

static void trees(void) {
    char path[PATH_MAX + 10];
    snprintf(path, sizeof path, "%s/tree", base);
    char *one[] = {"tree", NULL}, *two[] = {"tree/a", path, NULL}, *odd[] = {"tree/none", "tree/link", "tree/other", "tree/broken", NULL};
    char *none[] = {"tree", "", NULL}, *slash[] = {"tree/a/", NULL};
    fts(NULL, FTS_PHYSICAL | FTS_NOCHDIR, 0, one);
    fts(NULL, FTS_LOGICAL, 0, one);
    fts(NULL, FTS_PHYSICAL | FTS_NOCHDIR | FTS_SEEDOT, 0, two);
    fts(NULL, FTS_PHYSICAL | FTS_NOCHDIR | FTS_XDEV, 0, slash);
    fts(NULL, FTS_PHYSICAL | FTS_NOCHDIR, 0, odd);
    fts(NULL, FTS_PHYSICAL | FTS_NOCHDIR | FTS_COMFOLLOW, 0, odd);
    fts(NULL, FTS_PHYSICAL | FTS_NOCHDIR, 0, none);
    fts(NULL, 0x4000, 0, one);
    fts("a", FTS_PHYSICAL | FTS_NOCHDIR, FTS_SKIP, one);
    fts("other", FTS_PHYSICAL | FTS_NOCHDIR, FTS_FOLLOW, one);
    fts("broken", FTS_PHYSICAL | FTS_NOCHDIR, FTS_FOLLOW, one);
    fts("one.c", FTS_PHYSICAL | FTS_NOCHDIR, FTS_AGAIN, one);
    fts("one.c", FTS_PHYSICAL | FTS_NOCHDIR, 9, one);
    children(0);
    children(FTS_NAMEONLY);
    FTS *f = fts_open(one, FTS_PHYSICAL | FTS_NOCHDIR, NULL);
    for (int i = 0; i < 5; i++) fts_read(f);
    printf("closed amid it: %d\n", fts_close(f));
}

static void pattern(const char *text, int flags) {
    glob_t g = {.gl_offs = 2};
    int said = glob(text, flags, NULL, &g);
    printf("glob '%s' %x: %d, %ld, flags %x\n", below(text), flags, said, said ? 0L : (long)g.gl_pathc, g.gl_flags);
    for (size_t i = 0; !said && i < g.gl_pathc; i++) printf("  %s\n", below(g.gl_pathv[i + (flags & GLOB_DOOFFS ? 2 : 0)]));
    globfree(&g);
}

static void patterns(void) {
    char path[PATH_MAX + 20];
    pattern("tree/*.c", 0);
    pattern("tree/*", GLOB_MARK);
    pattern("tree/.*", GLOB_PERIOD);
    pattern("tree/*/*/*.c", 0);
    pattern("tree/{one,two,six}.c", GLOB_BRACE);
    pattern("tree/{one,two,six}.c", GLOB_BRACE | GLOB_NOMAGIC);
    pattern("tree/none*", 0);
    pattern("tree/none*", GLOB_NOCHECK);
    pattern("tree/[ot]*", GLOB_DOOFFS);
    pattern("*/a", GLOB_ONLYDIR);
    pattern("tree/broken", 0);
    snprintf(path, sizeof path, "%s/tree/*/three.?", base);
    pattern(path, 0);
    glob_t g;
    glob("tree/o*", 0, NULL, &g);
    glob("tree/t*.c", GLOB_APPEND, NULL, &g);
    printf("both %ld %s\n", (long)g.gl_pathc, g.gl_pathv[g.gl_pathc - 1]);
    globfree(&g);
}

static void run(const char *how, int (*f)(void)) {
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        int error = f();
        printf("%s: %d %s\n", how, error, strerrorname_np(errno));
        fflush(stdout);
        _exit(1);
    }
    int status = 0;
    waitpid(child, &status, 0);
    printf("%s: exit %d\n", how, WEXITSTATUS(status));
}

static int few(void) { return execl("tree/script", "script", "1", NULL); }
static int none(void) { return execl("tree/none", "none", NULL); }
static int many(void) { return execl("tree/script", "script", "1", "2", "3", "4", "5", "6", "7", "8", "9", "10", NULL); }
static int own(void) { return execl("/bin/echo", "echo", "1", "2", "3", "4", "5", "6", "7", NULL); }
static int in_path(void) {
    char path[PATH_MAX + 10];
    snprintf(path, sizeof path, "%s/tree:/bin", base);
    setenv("PATH", path, 1);
    return execlp("script", "script", "one", "two", "three", "four", "five", "six", NULL);
}
static int with_environment(void) {
    char *preload = NULL, *drive = NULL;
    asprintf(&preload, "LD_PRELOAD=%s", getenv("LD_PRELOAD") ? getenv("LD_PRELOAD") : "");
    asprintf(&drive, "WHARF_DRIVE=%s", getenv("WHARF_DRIVE") ? getenv("WHARF_DRIVE") : "");
    char *environment[] = {"TOLD=by the environment", preload, drive, NULL};
    return execle("tree/script", "script", "a", "b", "c", "d", "e", "f", NULL, environment);
}

static void programs(void) {
    // It is told the path that it was run by.
    file("tree/script", "#!/bin/sh\ncase $0 in /*) by=whole ;; *) by=$0 ;; esac\necho \"$by $# $*\" $TOLD\nexit $#\n");
    chmod("tree/script", 0755);
    run("execl", few);
    run("execl none", none);
    run("execl many", many);
    run("execl of the machine's own", own);
    run("execlp", in_path);
    run("execle", with_environment);
}

int main(int arguments, char **argument) {
    (void)arguments;
    if (chdir(argument[1]) < 0) {
        perror(argument[1]);
        return 1;
    }
    getcwd(base, sizeof base);
    tree();
    walks();
    trees();
    patterns();
    programs();
    return 0;
}
