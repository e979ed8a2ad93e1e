/* A library to preload (LD_PRELOAD): the n-th call of a function on a regular file goes wrong, once.
 *
 *   MAC_FAIL_CALL   write (pwrite as well), read (pread as well), fsync, rename, close, or
 *                   malloc (calloc, realloc and the aligned ones as well; those of 256 bytes and more, whatever the
 *                   folder)
 *   MAC_FAIL_NUMBER which one, from 1
 *   MAC_FAIL_HOW    ENOSPC, EDQUOT, EIO, EINTR, ENOMEM, or short: half of the bytes
 *   MAC_FAIL_UNDER  only files below this folder count
 *   MAC_FAIL_MARK   this file is made when it happens
 *   MAC_FAIL_LATER  if set, calls count only once the program has called mac_fail_from_here_on()
 *
 * Other programs that are started from the one (gnuplot) are left alone.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static atomic_long calls;
static atomic_int waiting;
static _Thread_local int marking; /* what is called here is not counted */

__attribute__((constructor)) static void begin(void) {
  waiting = getenv("MAC_FAIL_LATER") != NULL;
  unsetenv("LD_PRELOAD");
}

void mac_fail_from_here_on(void) { waiting = 0; }

static int is_below(const char* path) {
  const char* folder = getenv("MAC_FAIL_UNDER");
  return folder && strncmp(path, folder, strlen(folder)) == 0;
}

static int counts(int fd) {
  char link[64], path[PATH_MAX];
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  const ssize_t size = readlink(link, path, sizeof path - 1);
  if (size < 0) return 0;
  path[size] = '\0';
  return is_below(path);
}

/* Whether this call is the one. */
static int is_due(const char* call) {
  const char *wanted = getenv("MAC_FAIL_CALL"), *number = getenv("MAC_FAIL_NUMBER");
  if (!wanted || !number || strcmp(wanted, call) != 0) return 0;
  if (marking || waiting) return 0;
  if (atomic_fetch_add(&calls, 1) + 1 != atol(number)) return 0;
  const char* mark = getenv("MAC_FAIL_MARK");
  if (mark) {
    marking = 1;
    int (*real_close)(int) = (int (*)(int))dlsym(RTLD_NEXT, "close");
    real_close(open(mark, O_CREAT | O_WRONLY, 0600));
    marking = 0;
  }
  return 1;
}

static int is_short(void) { return strcmp(getenv("MAC_FAIL_HOW"), "short") == 0; }

static int fail(void) {
  const char* how = getenv("MAC_FAIL_HOW");
  errno = strcmp(how, "ENOSPC") == 0   ? ENOSPC
          : strcmp(how, "EDQUOT") == 0 ? EDQUOT
          : strcmp(how, "EINTR") == 0  ? EINTR
                                       : EIO;
  return -1;
}

#define TRANSFER(name, call, parameters, ...)                                   \
  ssize_t name parameters {                                                     \
    ssize_t(*real) parameters = (ssize_t(*) parameters)dlsym(RTLD_NEXT, #name); \
    if (!counts(fd) || !is_due(call)) return real(__VA_ARGS__);                 \
    if (!is_short() || count < 2) return fail();                                \
    count /= 2;                                                                 \
    return real(__VA_ARGS__);                                                   \
  }

TRANSFER(write, "write", (int fd, const void* bytes, size_t count), fd, bytes, count)
TRANSFER(pwrite, "write", (int fd, const void* bytes, size_t count, off_t at), fd, bytes, count, at)
TRANSFER(pwrite64, "write", (int fd, const void* bytes, size_t count, off_t at), fd, bytes, count, at)
TRANSFER(read, "read", (int fd, void* bytes, size_t count), fd, bytes, count)
TRANSFER(pread, "read", (int fd, void* bytes, size_t count, off_t at), fd, bytes, count, at)
TRANSFER(pread64, "read", (int fd, void* bytes, size_t count, off_t at), fd, bytes, count, at)

int fsync(int fd) {
  int (*real)(int) = (int (*)(int))dlsym(RTLD_NEXT, "fsync");
  return counts(fd) && is_due("fsync") ? fail() : real(fd);
}

int close(int fd) {
  int (*real)(int) = (int (*)(int))dlsym(RTLD_NEXT, "close");
  if (!counts(fd) || !is_due("close")) return real(fd);
  real(fd);
  return fail();
}

int rename(const char* from, const char* to) {
  int (*real)(const char*, const char*) = (int (*)(const char*, const char*))dlsym(RTLD_NEXT, "rename");
  return is_below(to) && is_due("rename") ? fail() : real(from, to);
}

/* The C library reads and writes its streams by itself, past the functions above: streams of ours, whose mode has an `e`,
 * go through them. */
static ssize_t stream_read(void* fd, char* bytes, size_t count) {
  return read((int)(intptr_t)fd, bytes, count);
}
static ssize_t stream_write(void* fd, const char* bytes, size_t count) {
  const ssize_t written = write((int)(intptr_t)fd, bytes, count);
  return written < 0 ? 0 : written;
}
static int stream_seek(void* fd, off64_t* offset, int from) {
  *offset = lseek64((int)(intptr_t)fd, *offset, from);
  return *offset < 0 ? -1 : 0;
}
static int stream_close(void* fd) { return close((int)(intptr_t)fd); }

FILE* fopen(const char* path, const char* mode) {
  FILE* (*real)(const char*, const char*) = (FILE * (*)(const char*, const char*)) dlsym(RTLD_NEXT, "fopen");
  if (!strchr(mode, 'e') || !is_below(path)) return real(path, mode);
  const int fd = open(path, (mode[0] == 'r' ? O_RDONLY : O_WRONLY | O_CREAT | O_APPEND) | O_CLOEXEC, 0666);
  if (fd < 0) return NULL;
  const cookie_io_functions_t calls_of_stream = {stream_read, stream_write, stream_seek, stream_close};
  return fopencookie((void*)(intptr_t)fd, mode, calls_of_stream);
}

/* Not by dlsym, which allocates itself. */
extern void* __libc_malloc(size_t size);
extern void* __libc_calloc(size_t count, size_t size);
extern void* __libc_realloc(void* memory, size_t size);
extern void* __libc_memalign(size_t alignment, size_t size);
enum { least_counted = 256 };

static int is_missing(size_t size) {
  if (size < least_counted || !is_due("malloc")) return 0;
  errno = ENOMEM;
  return 1;
}

void* malloc(size_t size) { return is_missing(size) ? NULL : __libc_malloc(size); }
void* calloc(size_t count, size_t size) {
  return is_missing(count * size) ? NULL : __libc_calloc(count, size);
}
void* realloc(void* memory, size_t size) { return is_missing(size) ? NULL : __libc_realloc(memory, size); }
void* memalign(size_t alignment, size_t size) {
  return is_missing(size) ? NULL : __libc_memalign(alignment, size);
}
void* aligned_alloc(size_t alignment, size_t size) { return memalign(alignment, size); }

int posix_memalign(void** memory, size_t alignment, size_t size) {
  void* const found = memalign(alignment, size);
  if (!found) return ENOMEM;
  *memory = found;
  return 0;
}
