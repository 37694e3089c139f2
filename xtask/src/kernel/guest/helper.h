/* What the parts of the helper share: see helper.c. */
#define _GNU_SOURCE
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* Prints what failed, on which path and why, and ends the program with status 1. */
void die(const char *what, const char *path) __attribute__((noreturn));

/* malloc that does not fail. */
void *get(size_t bytes);

/* A decimal argument. */
uint64_t number(const char *text);

/* The xorshift generator (13, 7, 17) of the pattern workloads. */
extern uint64_t generator;
uint64_t next(void);

/* next() modulo n. */
uint64_t below(uint64_t n);

/* SHA-256 of a regular file (FIPS 180-4), as 64 hexadecimal digits and a zero. */
void sha256_file(const char *path, char hex[65]);

/* The commands. */
int manifest(const char *root);
int tree(const char *root, uint64_t seed, uint64_t mib);
int churn(const char *root, uint64_t seed, uint64_t percent, uint64_t mib);
int fill(const char *root, uint64_t files);
void schedule(const char *how);
int overwrite(const char *root, const char *pattern, uint64_t files, uint64_t mib, uint64_t sync_every);
