// Starts a command on a kernel that has no system call younger than Linux 4.18: old_kernel COMMAND WORDS...
// A filter answers ENOSYS where 4.18 would. It stays with all that the command starts.
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { LAST_OF_4_18 = 334 };  // rseq; the next ones, of 5.1, begin at 424

int main(int count, char** words) {
  struct sock_filter filter[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JGT | BPF_K, LAST_OF_4_18, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  struct sock_fprog program = {sizeof filter / sizeof filter[0], filter};
  if (count < 2 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
      prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0 || syscall(SYS_clone3, NULL, 0) != -1 ||
      errno != ENOSYS) {
    perror("old_kernel");
    return 2;
  }
  execvp(words[1], words + 1);
  perror(words[1]);
  return 127;
}
