"""After the KV cache: what capture, warm-up and the fullest batch of requests take."""
