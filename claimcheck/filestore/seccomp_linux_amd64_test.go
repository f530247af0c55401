package filestore_test

const sysSeccomp = 317
