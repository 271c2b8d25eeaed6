def mean_grad_device(W_0, b_0, W_1, b_1, x, y):
    requests = []

    # forward
    hidden = np.tanh(x @ W_0 + b_0)
    error = hidden @ W_1 + b_1 - y

    # reverse
    # return np.mean(error * error)
    error_bar = 0.08333333333333333 * error + 0.08333333333333333 * error
    # error = hidden @ W_1 + b_1 - y
    b_1_bar = np.sum(error_bar, axis=0)
    requests.append(comm.Iallreduce(MPI.IN_PLACE, b_1_bar))
    hidden_bar = error_bar @ W_1.T
    W_1_bar = hidden.T @ error_bar
    requests.append(comm.Iallreduce(MPI.IN_PLACE, W_1_bar))
    # hidden = np.tanh(x @ W_0 + b_0)
    hidden_bar_times_hidden = hidden_bar * (1.0 - hidden * hidden)
    b_0_bar = np.sum(hidden_bar_times_hidden, axis=0)
    requests.append(comm.Iallreduce(MPI.IN_PLACE, b_0_bar))
    W_0_bar = x.T @ hidden_bar_times_hidden
    comm.Allreduce(MPI.IN_PLACE, W_0_bar)
    MPI.Request.Waitall(requests)
    return W_0_bar / 4, b_0_bar / 4, W_1_bar / 4, b_1_bar / 4


def mean_grad_pmap(W_0, b_0, W_1, b_1, x, y):
    """Every rank gives the same arguments, works on its part, and has all results."""
    if world.size != 4:
        raise ValueError(f"{world.size} ranks, and 4 are needed")
    if x.shape[0] != 4:
        raise ValueError("x.shape[0] must be 4, the number of devices")
    if y.shape[0] != 4:
        raise ValueError("y.shape[0] must be 4, the number of devices")
    result = mean_grad_device(W_0, b_0, W_1, b_1, x[comm.rank], y[comm.rank])
    return (
        all_gather(result[0]), all_gather(result[1]), all_gather(result[2]), all_gather(result[3])
    )
