; An interpreter's mix: recursion, lists, sorting, association lists, strings, continuations, and a
; small evaluator written in Scheme itself.
(define (fib n) (if (< n 2) n (+ (fib (- n 1)) (fib (- n 2)))))

(define (tak x y z)
  (if (not (< y x)) z (tak (tak (- x 1) y z) (tak (- y 1) z x) (tak (- z 1) x y))))

(define (upto a b) (if (> a b) '() (cons a (upto (+ a 1) b))))

(define (pseudo n seed)
  (let loop ((i 0) (s seed) (found '()))
    (if (= i n) found
        (loop (+ i 1) (modulo (+ (* s 3877) 29573) 139968) (cons s found)))))

(define (merge-lists a b)
  (cond ((null? a) b)
        ((null? b) a)
        ((< (car a) (car b)) (cons (car a) (merge-lists (cdr a) b)))
        (else (cons (car b) (merge-lists a (cdr b))))))

(define (halve l)
  (let loop ((slow l) (fast l) (front '()))
    (if (or (null? fast) (null? (cdr fast)))
        (cons (reverse front) slow)
        (loop (cdr slow) (cddr fast) (cons (car slow) front)))))

(define (sort-list l)
  (if (or (null? l) (null? (cdr l))) l
      (let ((parts (halve l)))
        (merge-lists (sort-list (car parts)) (sort-list (cdr parts))))))

(define (queens n)
  (define (safe? row distance placed)
    (cond ((null? placed) #t)
          ((= (car placed) row) #f)
          ((= (car placed) (+ row distance)) #f)
          ((= (car placed) (- row distance)) #f)
          (else (safe? row (+ distance 1) (cdr placed)))))
  (define (place k placed)
    (if (= k 0) 1
        (let loop ((row 1) (total 0))
          (if (> row n) total
              (loop (+ row 1)
                    (if (safe? row 1 placed)
                        (+ total (place (- k 1) (cons row placed)))
                        total))))))
  (place n '()))

; An evaluator for lambda, if, and a few primitives.
(define (evaluate e env)
  (cond ((symbol? e) (cdr (assq e env)))
        ((not (pair? e)) e)
        ((eq? (car e) 'if)
         (if (evaluate (cadr e) env) (evaluate (caddr e) env) (evaluate (cadddr e) env)))
        ((eq? (car e) 'fn) (list 'closure (cadr e) (caddr e) env))
        ((eq? (car e) 'plus) (+ (evaluate (cadr e) env) (evaluate (caddr e) env)))
        ((eq? (car e) 'minus) (- (evaluate (cadr e) env) (evaluate (caddr e) env)))
        ((eq? (car e) 'less) (< (evaluate (cadr e) env) (evaluate (caddr e) env)))
        (else (let ((f (evaluate (car e) env)) (x (evaluate (cadr e) env)))
                (evaluate (caddr f) (cons (cons (cadr f) x) (cadddr f)))))))

(define (sum-below n)
  (evaluate (list '((fn self (self self))
                    (fn self (fn n (if (less n 1) 0 (plus n ((self self) (minus n 1))))))) n)
            '()))

(define (count-words l)
  (let loop ((l l) (table '()))
    (if (null? l) table
        (let ((seen (assv (modulo (car l) 17) table)))
          (if seen
              (begin (set-cdr! seen (+ (cdr seen) 1)) (loop (cdr l) table))
              (loop (cdr l) (cons (cons (modulo (car l) 17) 1) table)))))))

(define (first-over limit l)
  (call/cc (lambda (return) (for-each (lambda (x) (if (> x limit) (return x))) l) #f)))

(define (spell l)
  (string-length (apply string-append (map number->string l))))

(define (say what value) (display what) (display " ") (display value) (newline))

(define (work rounds size)
  (let loop ((round 1))
    (if (<= round rounds)
        (let ((numbers (pseudo size (* 11 round))))
          (say "round" round)
          (say "fib" (fib (+ 9 (modulo round 5))))
          (say "tak" (tak 8 4 (modulo round 4)))
          (say "smallest" (car (sort-list numbers)))
          (say "queens" (queens (+ 5 (modulo round 2))))
          (say "sum" (sum-below (quotient size 4)))
          (say "counted" (length (count-words numbers)))
          (say "over" (first-over 139000 numbers))
          (say "spelt" (spell numbers))
          (loop (+ round 1))))))
