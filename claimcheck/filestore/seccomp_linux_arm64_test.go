package filestore_test

const sysSeccomp = 277
