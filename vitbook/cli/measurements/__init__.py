"""Measurements that two chapters or more read; that of one chapter stands in its study."""
