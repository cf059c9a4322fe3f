/* Does what programs do with files below the directory that it is given, and prints what it finds. Nothing that it prints
 * depends on where that is: on the machine's own file system and on a drive it has to print the same. */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>
#include <utime.h>

static char base[PATH_MAX];

#define SAY(...) do { printf(__VA_ARGS__); fflush(stdout); } while (0)
/* The value of a call, and its error if it is -1. */
#define CALL(call) do { errno = 0; long value_ = (long)(call); int error_ = errno; \
    SAY("%s:%d %s = %ld%s%s\n", __func__, __LINE__, #call, value_ < 0 ? -1L : value_, \
        value_ < 0 ? " " : "", value_ < 0 ? strerrorname_np(error_) : ""); } while (0)
/* Whether a call works, where its value is of no account. */
#define WORKS(call) do { errno = 0; int works_ = (call); SAY("%s:%d %s: %s\n", __func__, __LINE__, #call, \
    works_ ? "yes" : strerrorname_np(errno)); } while (0)

static void show(const char *path) {
    struct stat s;
    if (lstat(path, &s) < 0) {
        SAY("  %s: %s\n", path, strerrorname_np(errno));
        return;
    }
    SAY("  %s: mode %o links %ld bytes %ld\n", path, s.st_mode, (long)s.st_nlink, S_ISDIR(s.st_mode) ? -1L : (long)s.st_size);
}

static void contents(const char *path) {
    char text[256];
    int fd = open(path, O_RDONLY);
    ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
    if (n < 0) {
        SAY("  %s: %s\n", path, strerrorname_np(errno));
    } else {
        text[n] = 0;
        SAY("  %s: '%s'\n", path, text);
    }
    if (fd >= 0) close(fd);
}

static void opening(void) {
    CALL(open("none", O_RDONLY));
    int fd = open("a", O_RDWR | O_CREAT | O_EXCL, 0640);
    WORKS(fd >= 0);
    CALL(open("a", O_RDWR | O_CREAT | O_EXCL, 0640));
    CALL(open("a/b", O_RDONLY));
    CALL(open(".", O_RDWR));
    CALL(open("", O_RDONLY));
    CALL(write(fd, "hello world", 11));
    CALL(lseek(fd, 0, SEEK_CUR));
    CALL(lseek(fd, -5, SEEK_END));
    char text[64] = {0};
    CALL(read(fd, text, 3));
    SAY("  '%s'\n", text);
    CALL(pread(fd, text, 64, 6));
    CALL(pread(fd, text, 64, 100));
    CALL(pread(fd, text, 64, -1));
    CALL(pwrite(fd, "XY", 2, 20));
    CALL(lseek(fd, 0, SEEK_CUR));
    CALL(lseek(fd, -1, SEEK_SET));
    CALL(lseek(fd, 0, 77));
    struct stat s;
    CALL(fstat(fd, &s));
    SAY("  %ld bytes mode %o\n", (long)s.st_size, s.st_mode);
    CALL(ftruncate(fd, 4));
    CALL(ftruncate(fd, -1));
    CALL(fsync(fd));
    CALL(fdatasync(fd));
    CALL(fcntl(fd, F_GETFL) & (O_ACCMODE | O_APPEND));
    CALL(close(fd));
    CALL(close(fd));
    CALL(read(fd, text, 1));
    contents("a");
    fd = open("a", O_RDONLY);
    CALL(write(fd, "x", 1));
    CALL(ftruncate(fd, 0));
    close(fd);
    fd = open("a", O_WRONLY);
    CALL(read(fd, text, 1));
    close(fd);
    fd = open("a", O_WRONLY | O_APPEND);
    CALL(write(fd, "123", 3));
    CALL(lseek(fd, 0, SEEK_CUR));
    CALL(lseek(fd, 1, SEEK_SET));
    CALL(write(fd, "456", 3));
    CALL(fcntl(fd, F_SETFL, 0));
    CALL(pwrite(fd, "#", 1, 0));
    close(fd);
    contents("a");
    umask(077);
    close(open("private", O_CREAT | O_WRONLY, 0666));
    umask(022);
    show("private");
    CALL(creat("a", 0600));
    contents("a");
    CALL(truncate("private", 10));
    show("private");
    CALL(truncate("none", 10));
}

static void names(void) {
    CALL(mkdir("d", 0755));
    CALL(mkdir("d", 0755));
    CALL(mkdir("none/d", 0755));
    CALL(mkdir("d/e", 0700));
    show("d");
    close(open("d/f", O_CREAT | O_WRONLY, 0644));
    CALL(rmdir("d"));
    CALL(unlink("d"));
    CALL(unlink("d/none"));
    CALL(rename("d/f", "d/g"));
    CALL(rename("d", "d/e/d"));
    CALL(rename("none", "x"));
    CALL(link("d/g", "d/h"));
    show("d/h");
    CALL(link("d", "dd"));
    CALL(symlink("h", "d/s"));
    CALL(symlink("nowhere", "dangling"));
    show("d/s");
    char text[100] = {0};
    CALL(readlink("d/s", text, 100));
    SAY("  '%s'\n", text);
    CALL(readlink("d/g", text, 100));
    CALL(open("dangling", O_RDONLY));
    CALL(open("d/s", O_RDONLY | O_NOFOLLOW));
    CALL(unlink("d/s"));
    CALL(access("d/g", R_OK));
    CALL(access("d/none", F_OK));
    CALL(chmod("d/g", 0400));
    show("d/g");
    int at = open("d", O_RDONLY | O_DIRECTORY);
    CALL(open("d/g", O_DIRECTORY));
    int fd = openat(at, "new", O_CREAT | O_RDWR, 0644);
    WORKS(fd >= 0);
    close(fd);
    CALL(mkdirat(at, "sub", 0755));
    CALL(unlinkat(at, "new", 0));
    CALL(unlinkat(at, "sub", 0));
    CALL(unlinkat(at, "sub", AT_REMOVEDIR));
    CALL(faccessat(at, "g", F_OK, 0));
    CALL(renameat(at, "g", at, "i"));
    struct stat s;
    CALL(fstatat(at, "i", &s, 0));
    CALL(fstatat(at, "", &s, AT_EMPTY_PATH));
    WORKS(S_ISDIR(s.st_mode));
    CALL(fstatat(at, "../a", &s, 0));
    CALL(read(at, text, 1));
    CALL(write(at, text, 1));
    close(at);
    close(open("k", O_CREAT | O_WRONLY, 0644));
    CALL(renameat2(AT_FDCWD, "k", AT_FDCWD, "d/i", RENAME_NOREPLACE));
    CALL(renameat2(AT_FDCWD, "k", AT_FDCWD, "d/i", RENAME_EXCHANGE));
    CALL(remove("d/e"));
    CALL(remove("dangling"));
    CALL(mkfifo("pipe", 0600));
    show("pipe");
    CALL(mknod("plain", S_IFREG | 0600, 0));
    show("plain");
}

/* Paths that are not there were once taken for the machine's own (`EXDEV`), and one of them ended the program (pjdfstest's link/17). */
static void paths_of_nothing(void) {
    const char *volatile nothing = NULL;
    char text[100];
    close(open("of", O_CREAT | O_WRONLY, 0644));
    CALL(link("of", nothing));
    CALL(link(nothing, "of"));
    CALL(link("of", ""));
    CALL(link("", "to"));
    CALL(rename("of", nothing));
    CALL(rename(nothing, "of"));
    CALL(rename("of", ""));
    CALL(rename("", "of"));
    CALL(symlink(nothing, "to"));
    CALL(symlink("of", nothing));
    CALL(symlink("", "to"));
    CALL(readlink(nothing, text, sizeof text));
    CALL(mkdir(nothing, 0755));
    CALL(unlink(nothing));
    CALL(open(nothing, O_RDONLY));
    CALL(chmod(nothing, 0644));
    CALL(truncate(nothing, 0));
    CALL(access(nothing, F_OK));
    CALL(chdir(nothing));
    CALL(getxattr("of", nothing, text, sizeof text));
    CALL(setxattr("of", nothing, text, 0, 0));
    CALL(utimes(nothing, NULL));
    CALL(lutimes(nothing, NULL));
    CALL(execl(nothing, "x", NULL));
    CALL(unlink("of"));
}

static int by_name(const void *a, const void *b) { return strcmp(*(char **)a, *(char **)b); }

static void listing(void) {
    mkdir("many", 0755);
    for (int i = 0; i < 700; i++) {
        char name[32];
        sprintf(name, "many/%d", i * 7919 % 10007);
        close(open(name, O_CREAT | O_WRONLY, 0644));
    }
    DIR *d = opendir("many");
    char *all[800];
    int count = 0, types = 0;
    long middle = 0;
    char at_middle[256] = "";
    for (struct dirent *e; (e = readdir(d)); count++) {
        all[count] = strdup(e->d_name);
        types += e->d_type == DT_REG;
        if (count == 350) middle = telldir(d);
        if (count == 351) strcpy(at_middle, e->d_name);
    }
    SAY("listing: %d entries, %d files\n", count, types);
    seekdir(d, middle);
    SAY("again: %s\n", strcmp(readdir(d)->d_name, at_middle) ? "another" : "the same");
    rewinddir(d);
    int again = 0;
    while (readdir(d)) again++;
    SAY("rewound: %d\n", again);
    WORKS(dirfd(d) >= 0);
    CALL(closedir(d));
    qsort(all, count, sizeof *all, by_name);
    SAY("first %s %s %s last %s\n", all[0], all[1], all[2], all[count - 1]);
    struct dirent **scanned;
    int n = scandir("many", &scanned, NULL, alphasort);
    SAY("scandir: %d, %s\n", n, scanned[n - 1]->d_name);
    CALL(opendir("a") == NULL ? -1 : 0);
    CALL(opendir("none") == NULL ? -1 : 0);
    d = fdopendir(open("many", O_RDONLY));
    for (struct dirent *e; (e = readdir(d));) if (e->d_name[0] != '.') unlinkat(dirfd(d), e->d_name, 0);
    closedir(d);
    CALL(rmdir("many"));
}

static void descriptors(void) {
    int fd = open("dup", O_CREAT | O_RDWR | O_TRUNC, 0644);
    int other = dup(fd);
    write(fd, "abc", 3);
    CALL(lseek(other, 0, SEEK_CUR));
    int high = fcntl(fd, F_DUPFD_CLOEXEC, 100);
    WORKS(high >= 100);
    CALL(fcntl(high, F_GETFD));
    CALL(fcntl(fd, F_GETFD));
    close(fd);
    CALL(write(high, "def", 3));
    CALL(lseek(other, 0, SEEK_CUR));
    CALL(dup2(other, 77));
    CALL(dup3(other, other, 0));
    CALL(close(other));
    CALL(pwrite(77, "X", 1, 0));
    int null = open("/dev/null", O_RDWR);
    CALL(dup2(null, 77));
    CALL(write(77, "gone", 4));
    close(77);
    close(null);
    close(high);
    contents("dup");
    fd = open("dup", O_RDWR);
    pid_t child = fork();
    if (child == 0) {
        char text[4] = {0};
        read(fd, text, 2);
        write(fd, "!", 1);
        _exit(text[0]);
    }
    int status;
    waitpid(child, &status, 0);
    SAY("child: %c\n", WEXITSTATUS(status));
    CALL(lseek(fd, 0, SEEK_CUR));
    int pair[2];
    socketpair(AF_UNIX, SOCK_STREAM, 0, pair);
    child = fork();
    if (child == 0) {
        close(pair[0]);
        int mine = open("sent", O_CREAT | O_RDWR, 0644);
        write(mine, "from the child", 14);
        char byte = 0, room[CMSG_SPACE(sizeof(int))];
        memset(room, 0, sizeof room);
        struct iovec io = {&byte, 1};
        struct msghdr m = {.msg_iov = &io, .msg_iovlen = 1, .msg_control = room, .msg_controllen = sizeof room};
        struct cmsghdr *c = CMSG_FIRSTHDR(&m);
        c->cmsg_level = SOL_SOCKET, c->cmsg_type = SCM_RIGHTS, c->cmsg_len = CMSG_LEN(sizeof(int));
        memcpy(CMSG_DATA(c), &mine, sizeof mine);
        sendmsg(pair[1], &m, 0);
        _exit(0);
    }
    close(pair[1]);
    char byte, room[CMSG_SPACE(sizeof(int))];
    struct iovec io = {&byte, 1};
    struct msghdr m = {.msg_iov = &io, .msg_iovlen = 1, .msg_control = room, .msg_controllen = sizeof room};
    CALL(recvmsg(pair[0], &m, 0));
    int received;
    memcpy(&received, CMSG_DATA(CMSG_FIRSTHDR(&m)), sizeof received);
    waitpid(child, &status, 0);
    char text[64] = {0};
    CALL(lseek(received, 0, SEEK_CUR));
    CALL(pread(received, text, 63, 0));
    SAY("  '%s'\n", text);
    close(received);
    close(pair[0]);
    struct pollfd p = {.fd = fd, .events = POLLIN};
    CALL(poll(&p, 1, 1000));
    CALL(p.revents);
    fd_set set;
    FD_ZERO(&set);
    FD_SET(fd, &set);
    CALL(select(fd + 1, &set, NULL, NULL, NULL));
    CALL(FD_ISSET(fd, &set) != 0);
    CALL(isatty(fd));
    close(fd);
}

static void vectors(void) {
    int fd = open("v", O_CREAT | O_RDWR | O_TRUNC, 0644);
    struct iovec w[3] = {{"one", 3}, {"", 0}, {"twothree", 8}};
    CALL(writev(fd, w, 3));
    char a[5] = {0}, b[20] = {0};
    struct iovec r[2] = {{a, 4}, {b, 19}};
    CALL(preadv(fd, r, 2, 0));
    SAY("  '%s' '%s'\n", a, b);
    CALL(pwritev(fd, w, 1, 30));
    CALL(lseek(fd, 0, SEEK_DATA));
    CALL(lseek(fd, 1000, SEEK_DATA));
    CALL(posix_fallocate(fd, 0, 10000));
    struct stat s;
    fstat(fd, &s);
    SAY("  %ld\n", (long)s.st_size);
    CALL(fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 4096));
    memset(a, 'x', 4);
    CALL(pread(fd, a, 4, 0));
    CALL(a[0]);
    int to = open("copied", O_CREAT | O_RDWR | O_TRUNC, 0644);
    lseek(fd, 0, SEEK_SET);
    CALL(copy_file_range(fd, NULL, to, NULL, 20000, 0));
    off_t at = 30;
    CALL(sendfile(to, fd, &at, 3));
    SAY("  %ld\n", (long)at);
    close(to);
    show("copied");
    close(fd);
}

static void attributes(void) {
    close(open("t", O_CREAT | O_WRONLY, 0644));
    struct timespec times[2] = {{100, 5}, {200, 7}};
    CALL(utimensat(AT_FDCWD, "t", times, 0));
    struct stat s;
    stat("t", &s);
    SAY("  %ld.%ld %ld.%ld\n", (long)s.st_atim.tv_sec, s.st_atim.tv_nsec, (long)s.st_mtim.tv_sec, s.st_mtim.tv_nsec);
    int fd = open("t", O_RDWR);
    times[0].tv_nsec = UTIME_OMIT;
    times[1].tv_sec = 300;
    CALL(futimens(fd, times));
    CALL(fchmod(fd, 0751));
    CALL(fchown(fd, -1, -1));
    struct statx x;
    CALL(statx(fd, "", AT_EMPTY_PATH, STATX_BASIC_STATS, &x));
    SAY("  %ld %ld %o\n", (long)x.stx_atime.tv_sec, (long)x.stx_mtime.tv_sec, x.stx_mode);
    CALL(fsetxattr(fd, "user.one", "value", 5, 0));
    CALL(setxattr("t", "user.one", "v", 1, XATTR_CREATE));
    char text[100] = {0};
    CALL(getxattr("t", "user.one", text, 100));
    SAY("  '%s'\n", text);
    CALL(getxattr("t", "user.two", text, 100));
    CALL(getxattr("t", "user.one", text, 2));
    CALL(listxattr("t", text, 100));
    CALL(removexattr("t", "user.one"));
    close(fd);
    struct statvfs v;
    CALL(statvfs(".", &v));
    CALL(v.f_namemax);
}

static void streams(void) {
    FILE *f = fopen("stream", "w+");
    CALL(fprintf(f, "line %d\nline %d\n", 1, 2));
    WORKS(fileno(f) >= 0);
    struct stat s;
    fflush(f);
    fstat(fileno(f), &s);
    SAY("  %ld\n", (long)s.st_size);
    rewind(f);
    char line[64];
    while (fgets(line, sizeof line, f)) SAY("  got %s", line);
    CALL(feof(f) != 0);
    CALL(fseek(f, -3, SEEK_END));
    CALL(ftell(f));
    CALL(fgetc(f));
    CALL(fputs("more", f));
    CALL(fclose(f));
    contents("stream");
    f = fopen("stream", "a");
    fputs("appended\n", f);
    fclose(f);
    f = fopen("stream", "r");
    int n = 0;
    size_t size = 0;
    char *text = NULL;
    while (getline(&text, &size, f) > 0) n++;
    SAY("  %d lines\n", n);
    fclose(f);
    CALL(fopen("none/x", "r") == NULL ? -1 : 0);
    f = fdopen(open("stream", O_RDONLY), "r");
    CALL(fscanf(f, "line %d", &n));
    CALL(n);
    fclose(f);
    f = fopen("big", "w");
    for (int i = 0; i < 100000; i++) fprintf(f, "%d\n", i);
    CALL(fclose(f));
    show("big");
    f = fopen("big", "r");
    long sum = 0;
    for (long one; fscanf(f, "%ld", &one) == 1;) sum += one;
    SAY("  sum %ld\n", sum);
    fclose(f);
}

static void mappings(void) {
    int fd = open("m", O_CREAT | O_RDWR | O_TRUNC, 0644);
    CALL(ftruncate(fd, 8192));
    pwrite(fd, "mapped", 6, 4096);
    char *p = mmap(NULL, 8192, PROT_READ, MAP_PRIVATE, fd, 0);
    SAY("  '%s'\n", p + 4096);
    munmap(p, 8192);
    p = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    WORKS(p != MAP_FAILED);
    strcpy(p, "written");
    CALL(msync(p, 8192, MS_SYNC));
    contents("m");
    strcpy(p, "later");
    CALL(munmap(p, 8192));
    contents("m");
    // It is no persistent memory: who takes it for that syncs nothing.
    p = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_SHARED_VALIDATE | MAP_SYNC, fd, 0);
    SAY("  persistent memory: %s\n", p == MAP_FAILED ? strerrorname_np(errno) : "mapped");
    close(fd);
    fd = open("m", O_RDWR);
    char *q = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    int again = open("m", O_RDWR);
    p = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, again, 0);
    close(again);
    strcpy(q, "two mappings");
    SAY("  '%s'\n", p);
    contents("m");
    pwrite(fd, "by a call", 9, 0);
    SAY("  '%s'\n", p);
    CALL(ftruncate(fd, 4));
    CALL(ftruncate(fd, 4096));
    SAY("  '%s'\n", p);
    pid_t child = fork();
    if (child == 0) {
        strcpy(q, "child");
        _exit(0);
    }
    waitpid(child, NULL, 0);
    SAY("  '%s'\n", p);
    contents("m");
    munmap(q, 4096);
    munmap(p, 8192);
    close(fd);
    fd = open("m", O_RDWR);
    CALL(ftruncate(fd, 8192));
    p = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    strcpy(p, "a hole comes here");
    strcpy(p + 4096, "and zeros here");
    CALL(fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 2, 4));
    CALL(fallocate(fd, FALLOC_FL_ZERO_RANGE, 4098, 6));
    SAY("  '%s' '%s' '%s' '%s'\n", p, p + 6, p + 4096, p + 4104);
    CALL(truncate("m", 4100));
    SAY("  '%s' %d\n", p + 4096, p[4104]);
    CALL(ftruncate(fd, 8192));
    close(open("m", O_RDWR | O_TRUNC));
    CALL(ftruncate(fd, 8192));
    SAY("  '%s' '%s'\n", p, p + 6);
    munmap(p, 8192);
    p = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 4096);
    CALL(ftruncate(fd, 20000));
    pwrite(fd, "far", 3, 16384);
    p = mremap(p, 4096, 15904, MREMAP_MAYMOVE);
    WORKS(p != MAP_FAILED);
    SAY("  '%s' %d\n", p + 12288, p[15000]);
    strcpy(p + 12288, "grown");
    CALL(munmap(p, 15904));
    char end[10] = {0};
    CALL(pread(fd, end, 9, 16384));
    SAY("  '%s'\n", end);
    CALL(ftruncate(fd, 8192));
    p = mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0);
    pwrite(fd, "to be read", 10, 0);
    SAY("  '%s'\n", p);
    CALL(mprotect(p, 4096, PROT_READ | PROT_WRITE));
    strcpy(p, "to be written");
    contents("m");
    strcpy(p, "once more");
    CALL(mprotect(p, 4096, PROT_READ));
    munmap(p, 4096);
    contents("m");
    close(fd);
    fd = open("m", O_RDONLY);
    CALL(mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) == MAP_FAILED ? -1 : 0);
    close(fd);
}

static void directories(void) {
    char text[PATH_MAX];
    mkdir("w", 0755);
    mkdir("w/x", 0755);
    CALL(chdir("w/x"));
    SAY("  %s\n", getcwd(text, sizeof text) + strlen(base));
    CALL(chdir("none"));
    close(open("here", O_CREAT | O_WRONLY, 0644));
    CALL(access("../x/here", F_OK));
    CALL(chdir(".."));
    SAY("  %s\n", getcwd(text, sizeof text) + strlen(base));
    symlink("x", "to-x");
    SAY("  %s\n", realpath("to-x/./here", text) + strlen(base));
    CALL(realpath("none", text) == NULL ? -1 : 0);
    SAY("  sh: ");
    fflush(stdout);
    CALL(system("cat to-x/here; echo from a shell > shell; pwd | tail -c 3"));
    contents("shell");
    int fd = open("..", O_RDONLY);
    CALL(fchdir(fd));
    close(fd);
    SAY("  '%s'\n", getcwd(text, sizeof text) + strlen(base));
    CALL(getcwd(text, 2) == NULL ? -1 : 0);
}

// What a child prints that begins in a directory, by its path, or by a descriptor.
static void spawned(const char *directory, int fd, const char *script) {
    char *arguments[] = {"sh", "-c", (char *)script, NULL};
    posix_spawn_file_actions_t actions;
    pid_t child;
    int status = 0;
    posix_spawn_file_actions_init(&actions);
    int said = directory ? posix_spawn_file_actions_addchdir_np(&actions, directory)
                         : posix_spawn_file_actions_addfchdir_np(&actions, fd);
    SAY("  chdir of a child: %s\n", said ? strerrorname_np(said) : "done");
    fflush(stdout);
    for (int twice = 0; said == 0 && twice < 2; twice++) {
        said = posix_spawnp(&child, "sh", &actions, NULL, arguments, environ);
        if (said == 0) waitpid(child, &status, 0);
        SAY("  spawned: %s %x\n", said ? strerrorname_np(said) : "done", status);
        fflush(stdout);
    }
    posix_spawn_file_actions_destroy(&actions);
}

static void children(void) {
    mkdir("c", 0755);
    mkdir("c/d", 0755);
    int fd = open("c/d", O_RDONLY | O_DIRECTORY);
    spawned("c", -1, "pwd | tail -c 3; echo by path > made; cat made; cd d; pwd | tail -c 5");
    contents("c/made");
    spawned(NULL, fd, "pwd | tail -c 5; cat ../made; cat made; ls ..");
    close(fd);
    chdir("c/d");
    // Who is in one directory has a child begin in another one, on the drive or not.
    spawned("..", -1, "pwd | tail -c 3; ls; ls d");
    spawned("/usr/lib", -1, "pwd; cat made; echo $?");
    spawned("nowhere", -1, "pwd");
    chdir("../..");
}

static void lock(int fd, int command, int type, long start, long bytes) {
    struct flock l = {.l_type = type, .l_whence = SEEK_SET, .l_start = start, .l_len = bytes};
    errno = 0;
    int result = fcntl(fd, command, &l);
    SAY("  lock %d %d %ld %ld: %d %s", command, type, start, bytes, result, errno ? strerrorname_np(errno) : "");
    SAY(" %d %ld %ld\n", l.l_type, (long)l.l_start, (long)l.l_len);
}

static void locks(void) {
    int fd = open("lock", O_CREAT | O_RDWR, 0644), other = open("lock", O_RDWR);
    write(fd, "0123456789", 10);
    lock(fd, F_SETLK, F_WRLCK, 0, 10);
    lock(fd, F_SETLK, F_RDLCK, 4, 2);
    lock(other, F_GETLK, F_WRLCK, 0, 0);
    pid_t child = fork();
    if (child == 0) {
        lock(fd, F_GETLK, F_RDLCK, 0, 0);
        lock(fd, F_SETLK, F_RDLCK, 4, 2);
        lock(fd, F_SETLK, F_WRLCK, 4, 2);
        lock(fd, F_SETLK, F_WRLCK, 20, 0);
        CALL(lseek(fd, 0, SEEK_SET));
        CALL(lockf(fd, F_TEST, 3));
        _exit(0);
    }
    waitpid(child, NULL, 0);
    lock(fd, F_SETLK, F_WRLCK, 20, 0);
    CALL(flock(fd, LOCK_EX));
    CALL(flock(other, LOCK_SH | LOCK_NB));
    CALL(flock(fd, LOCK_SH));
    CALL(flock(other, LOCK_SH | LOCK_NB));
    CALL(flock(other, LOCK_UN));
    lock(fd, F_SETLK, F_UNLCK, 0, 0);
    lock(fd, F_OFD_SETLK, F_WRLCK, 0, 5);
    lock(other, F_OFD_SETLK, F_WRLCK, 4, 5);
    lock(other, F_OFD_SETLK, F_WRLCK, 5, 5);
    lock(fd, F_SETLK, F_RDLCK, 0, 1);
    close(fd);
    lock(other, F_OFD_SETLK, F_WRLCK, 0, 5);
    CALL(flock(other, LOCK_EX | LOCK_NB));
    close(other);
    fd = open("lock", O_RDWR);
    other = open("lock", O_RDWR);
    lock(fd, F_SETLK, F_WRLCK, 0, 0);
    close(other);
    child = fork();
    if (child == 0) {
        lock(fd, F_GETLK, F_WRLCK, 0, 0);
        _exit(0);
    }
    waitpid(child, NULL, 0);
    close(fd);
}

static void *both(void *argument) {
    int fd = open("threads", O_RDWR);
    for (int i = 0; i < 200; i++) {
        int value = i;
        pwrite(fd, &value, sizeof value, 4096L * (long)argument + i * 4);
    }
    close(fd);
    return NULL;
}

static void threads(void) {
    close(open("threads", O_CREAT | O_RDWR, 0644));
    pthread_t all[4];
    for (long i = 0; i < 4; i++) pthread_create(&all[i], NULL, both, (void *)i);
    for (int i = 0; i < 4; i++) pthread_join(all[i], NULL);
    int fd = open("threads", O_RDONLY), right = 0, value;
    for (int i = 0; i < 4; i++)
        for (int j = 0; j < 200; j++) right += pread(fd, &value, 4, 4096L * i + j * 4) == 4 && value == j;
    SAY("threads: %d\n", right);
    close(fd);
    fd = open("orphan", O_CREAT | O_RDWR, 0644);
    write(fd, "still here", 10);
    unlink("orphan");
    char text[20] = {0};
    CALL(pread(fd, text, 19, 0));
    SAY("  '%s'\n", text);
    struct stat s;
    fstat(fd, &s);
    SAY("  links %ld\n", (long)s.st_nlink);
    close(fd);
    show("orphan");
}

int main(int count, char **arguments) {
    (void)count;
    umask(022);
    if (chdir(arguments[1]) < 0) {
        perror(arguments[1]);
        return 1;
    }
    getcwd(base, sizeof base);
    opening();
    names();
    paths_of_nothing();
    listing();
    descriptors();
    vectors();
    attributes();
    streams();
    mappings();
    directories();
    children();
    locks();
    threads();
    return 0;
}
