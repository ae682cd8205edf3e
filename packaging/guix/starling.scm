;; SPDX-License-Identifier: MIT
;; Copyright (c) 2026 the Starling authors
;;
;; In a checkout, with the channel guix-hpc: guix build -f packaging/guix/starling.scm
;; Random123 is not in Guix: this file packages its headers.

(use-modules (guix packages) (guix gexp) (guix git-download) (guix utils)
             (guix build-system copy) (guix build-system gnu)
             ((guix licenses) #:prefix license:)
             (gnu packages autotools) (gnu packages check) (gnu packages compression) (gnu packages digest)
             (gnu packages jemalloc) (gnu packages maths) (gnu packages mpi) (gnu packages pkg-config)
             (gnu packages python) (gnu packages python-xyz) (gnu packages web) (inria storm))

(define random123
  (package
    (name "random123")
    (version "1.14.0")
    (source (origin
              (method git-fetch)
              (uri (git-reference (url "https://github.com/DEShawResearch/random123") (commit (string-append "v" version))))
              (file-name (git-file-name name version))
              ;; Guix prints the right one at the first build.
              (sha256 (base32 "0000000000000000000000000000000000000000000000000000"))))
    (build-system copy-build-system)
    (arguments '(#:install-plan '(("include" "include"))))
    (home-page "https://github.com/DEShawResearch/random123")
    (synopsis "Counter-based random numbers")
    (description "Headers of counter-based random number generators.")
    (license license:bsd-3)))

(package
  (name "starling")
  (version "0.1.0")
  (source (local-file "../.." "starling-checkout" #:recursive? #t
                      #:select? (lambda (file stat) (not (string-suffix? ".o" file)))))
  (build-system gnu-build-system)
  (arguments
   (list #:configure-flags #~(list (string-append "--with-random123=" #$random123)
                                   (string-append "--with-metis=" #$(this-package-input "metis"))
                                   "--without-dnnl" "--without-cuda" "--without-mpi")
         #:tests? #f))
  (native-inputs (list autoconf automake libtool pkg-config cmocka))
  (inputs (list starpu-1.4 `(,hwloc "lib") metis openblas zlib xxhash jansson jemalloc random123
                python))
  (propagated-inputs (list python-numpy)) ; the Python package goes into lib/python3.N/site-packages
  (home-page "https://starling.example.org")
  (synopsis "Train graph neural networks on one large graph")
  (description "Starling trains GraphSAGE, GCN, GAT, GCNII and deep residual GCNs on the vertices of one large graph, as StarPU
tasks.")
  (license license:expat))
