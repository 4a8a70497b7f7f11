"""What every operation computes, in plain torch: the kernels' truth, and the way on other devices."""
