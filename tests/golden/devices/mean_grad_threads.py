def mean_grad_device(comm, W_0, b_0, W_1, b_1, x, y):
    # forward
    hidden = np.tanh(x @ W_0 + b_0)
    error = hidden @ W_1 + b_1 - y

    # reverse
    # return np.mean(error * error)
    error_bar = 0.08333333333333333 * error + 0.08333333333333333 * error
    # error = hidden @ W_1 + b_1 - y
    b_1_bar = np.sum(error_bar, axis=0)
    hidden_bar = error_bar @ W_1.T
    W_1_bar = hidden.T @ error_bar
    # hidden = np.tanh(x @ W_0 + b_0)
    hidden_bar_times_hidden = hidden_bar * (1.0 - hidden * hidden)
    b_0_bar = np.sum(hidden_bar_times_hidden, axis=0)
    W_0_bar = x.T @ hidden_bar_times_hidden
    return comm.pmean(W_0_bar), comm.pmean(b_0_bar), comm.pmean(W_1_bar), comm.pmean(b_1_bar)


def mean_grad_pmap(W_0, b_0, W_1, b_1, x, y):
    """4 devices, each on its part; whole arrays in and out."""
    if x.shape[0] != 4:
        raise ValueError("x.shape[0] must be 4, the number of devices")
    if y.shape[0] != 4:
        raise ValueError("y.shape[0] must be 4, the number of devices")
    arguments = [(W_0, b_0, W_1, b_1, x[k], y[k]) for k in range(4)]
    results = run(mean_grad_device, arguments, {}, (4,))
    return (
        np.stack([results[k][0] for k in range(4)]),
        np.stack([results[k][1] for k in range(4)]),
        np.stack([results[k][2] for k in range(4)]),
        np.stack([results[k][3] for k in range(4)])
    )
