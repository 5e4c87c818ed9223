"""Ways to store images other than as files in folders; each file registers one."""
