/* A disk that forgets: keeps of each file only what it held when it was last synced, and of each folder only
   the names that it had then. Preloaded, it copies both to $SHADOW before fsync and fdatasync return; so it
   sees SQLite's syncs as well as Python's. Files are known by inode and birth time, as inodes are reused. */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void key(int folder, const char *name, char *out, size_t size, unsigned *mode) {
  struct statx told;
  out[0] = 0;
  if (statx(folder, name, AT_EMPTY_PATH | AT_SYMLINK_NOFOLLOW, STATX_BASIC_STATS | STATX_BTIME, &told)) return;
  *mode = told.stx_mode;
  snprintf(out, size, "%llu-%lld-%u", (unsigned long long)told.stx_ino, (long long)told.stx_btime.tv_sec,
           told.stx_btime.tv_nsec);
}

static void keep_file(int handle, FILE *out) {
  char piece[65536];
  ssize_t got;
  off_t place = 0;
  char path[64];
  snprintf(path, sizeof path, "/proc/self/fd/%d", handle);
  int again = open(path, O_RDONLY);
  while ((got = pread(again, piece, sizeof piece, place)) > 0) {
    fwrite(piece, 1, got, out);
    place += got;
  }
  close(again);
}

static void keep_folder(int handle, FILE *out) {
  DIR *folder = fdopendir(openat(handle, ".", O_RDONLY | O_DIRECTORY));
  struct dirent *entry;
  while ((entry = readdir(folder))) {
    char name[128];
    unsigned mode;
    if (!strcmp(entry->d_name, ".") || !strcmp(entry->d_name, "..")) continue;
    key(handle, entry->d_name, name, sizeof name, &mode);
    if (name[0]) fprintf(out, "%c %s %s\n", S_ISDIR(mode) ? 'd' : 'f', name, entry->d_name);
  }
  closedir(folder);
}

static void keep(int handle) {
  char name[128], aside[4096], kept[4096];
  unsigned mode;
  const char *shadow = getenv("SHADOW");
  key(handle, "", name, sizeof name, &mode);
  if (!shadow || !name[0] || !(S_ISREG(mode) || S_ISDIR(mode))) return;
  snprintf(kept, sizeof kept, "%s/%s", shadow, name);
  snprintf(aside, sizeof aside, "%s/aside-%d-%s", shadow, gettid(), name);
  FILE *out = fopen(aside, "w");
  if (!out) abort();
  S_ISDIR(mode) ? keep_folder(handle, out) : keep_file(handle, out);
  fclose(out);
  rename(aside, kept);
}

int fsync(int handle) {
  keep(handle);
  return ((int (*)(int))dlsym(RTLD_NEXT, "fsync"))(handle);
}

int fdatasync(int handle) {
  keep(handle);
  return ((int (*)(int))dlsym(RTLD_NEXT, "fdatasync"))(handle);
}
